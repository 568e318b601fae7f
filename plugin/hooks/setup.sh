#!/bin/sh
# Setup: is the program there, and of the plugin's version? SessionStart, if the program's scripts are missing: an
# installed program writes them. Silent if all is well; never fails the agent.
root=${CLAUDE_PLUGIN_ROOT:-$(dirname "$0")/..}
hook=${BACKSTORY_DATA_DIR:-$HOME/.backstory}/bin/backstory-hook
wanted=$(sed -n 's/^ *"version": *"\([^"]*\)".*/\1/p' "$root/.claude-plugin/plugin.json" 2>/dev/null | head -n 1)
say() { printf '{"systemMessage": "backstory: %s"}\n' "$1"; }
missing='Its program is missing, so nothing is remembered. Install it: pipx install backstory'
PATH=$PATH:$HOME/.local/bin
if [ "$1" = SessionStart ]; then
    command -v backstory >/dev/null && backstory hook claude-code SessionStart 2>/dev/null && exit 0
    # Said once in a session: not again after a compaction.
    grep -q '"source": *"[rs]' && say "$missing"
    exit 0
fi
if [ ! -x "$hook" ]; then
    command -v backstory >/dev/null || say "$missing"
    exit 0
fi
found=$("$hook" --version 2>/dev/null </dev/null | tr -cd 'A-Za-z0-9.+-')
if [ "$found" != "$wanted" ]; then
    say "The plugin is version ${wanted:-unknown}, the program ${found:-unknown}. Bring both to one version, then run: backstory repair"
fi
exit 0
