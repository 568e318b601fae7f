#!/bin/sh
# Setup: is the program there, and of the plugin's version? Silent if all is well; never fails the agent.
root=${CLAUDE_PLUGIN_ROOT:-$(dirname "$0")/..}
hook=${BACKSTORY_DATA_DIR:-$HOME/.backstory}/bin/backstory-hook
wanted=$(sed -n 's/^ *"version": *"\([^"]*\)".*/\1/p' "$root/.claude-plugin/plugin.json" 2>/dev/null | head -n 1)
say() { printf '{"systemMessage": "%s"}\n' "$1"; }
if [ ! -x "$hook" ]; then
    say 'backstory: the plugin is here, the program is not. Install it (pipx install backstory), then run: backstory repair'
    exit 0
fi
found=$("$hook" --version 2>/dev/null </dev/null | tr -cd 'A-Za-z0-9.+-')
if [ "$found" != "$wanted" ]; then
    say "backstory: the plugin is version ${wanted:-unknown}, the program ${found:-unknown}. Bring both to one version, then run: backstory repair"
fi
exit 0
