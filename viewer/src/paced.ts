// Work that many events ask for, done seldom.

export interface Paced {
  ask: () => void;
  stop: () => void;
}

/** Runs `work` soon after somebody asks: never twice at once, `ms` apart, and once more for who asked meanwhile. */
export function paced(work: () => unknown, ms = 400): Paced {
  let timer = 0;
  let begun = 0;
  let isBusy = false;
  let isAsked = false;
  let isStopped = false;

  function ask(): void {
    isAsked = true;
    if (!timer && !isBusy && !isStopped) timer = setTimeout(run, Math.max(50, begun + ms - Date.now()));
  }

  async function run(): Promise<void> {
    timer = 0;
    begun = Date.now();
    isAsked = false;
    isBusy = true;
    try {
      await work();
    } finally {
      isBusy = false;
    }
    if (isAsked) ask();
  }

  return {
    ask,
    stop: () => {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}
