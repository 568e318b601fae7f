"""Claude Code: its payloads and replies, its settings, its transcripts."""

from __future__ import annotations

from backstory.agents.agent import Agent
from backstory.agents.claude_code import kept_files, payloads, resuming, settings, transcript, transcript_files
from backstory.agents.transcripts import Transcripts

AGENT = Agent(
    name=payloads.NAME,
    title="Claude Code",
    read=payloads.read,
    reply=payloads.reply,
    transcripts=Transcripts(
        roots=settings.roots,
        suffixes=(".jsonl", ".jsonl.gz"),
        find=transcript_files.find,
        read=transcript.Transcript,
        beside=transcript_files.beside,
        last_message=transcript_files.last_message,
        retention=settings.retention,
        keeping=kept_files.KEEPING,
    ),
    parts=settings.parts,
    callers=settings.callers,
    muted=settings.muted,
    say=settings.say,
    plugin_enabled=settings.plugin_enabled,
    remove_plugin="claude plugin uninstall backstory",
    resuming=resuming.RESUMING,
)
