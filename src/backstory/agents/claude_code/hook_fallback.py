"""What the hook does for Claude Code when the worker does not answer.

The hook imports this file alone, without the package around it: constants only, no imports.
"""

CONTINUE = b'{"continue":true,"suppressOutput":true}'
#: event -> what the hook prints in the worker's place
REPLIES = dict.fromkeys(("UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "Stop", "SubagentStop"), CONTINUE)
#: Events that start the worker if it is away.
STARTS_WORKER = ("SessionStart", "UserPromptSubmit")
#: Events that wait for the worker to start, because its answer is the session's context.
WAITS = ("SessionStart",)
#: What it prints at the start of a session if the worker cannot start.
NO_WORKER = (
    b'{"systemMessage":"backstory: Its worker does not start. Run `backstory doctor` to find out why. '
    b'What happens until then is kept for later."}'
)
#: The agent's own variables begin with this. The worker outlives the session, so it does not get them, ...
VARIABLES = b"CLAUDE"
#: ... except those by which it finds the user's transcripts and login.
LOGIN = (b"CLAUDE_CONFIG_DIR", b"CLAUDE_CODE_OAUTH_TOKEN", b"CLAUDE_CODE_USE_BEDROCK", b"CLAUDE_CODE_USE_VERTEX")
