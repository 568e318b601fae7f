// The feed: what is remembered, the newest first, as it happens.
export default function Feed() {
  return <h1>Feed</h1>;
}
