"""A machine's ``/proc`` and ``/sys`` in a folder, with counters that a test moves on."""

from __future__ import annotations

from pathlib import Path

from ai4infra.live.machine import Kernel

DISKSTATS = " 259 0 {name} {reads} 0 {sectors} {ms} 0 0 0 0 0 {busy} {busy} 0 0 0 0 0 0\n"
STAT = (
    "{pid} ({name}) {state} {parent} 1 1 0 -1 0 0 0 0 0 {user} {system} 0 0 20 0 1 0 {started} 0 0"
    " 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 {blocked} 0 0 0 0 0 0 0 0 0 0\n"
)


class Tree:
    """The folder, and what is in it."""

    def __init__(self, root: Path) -> None:
        self.proc, self.sys = root / "proc", root / "sys"
        self.write("proc/stat", "cpu  0 0 0 0 0 0 0 0 0 0\n")
        self.write("proc/sys/kernel/task_delayacct", "1\n")
        self.disks()
        self.net()

    def write(self, place: str, text: str) -> Path:
        """Write one file, with the folders above it."""
        file = self.proc.parent / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def disks(self, **reads: int) -> None:
        """Set the reads of disks so far, each of 1 MiB in 2 ms."""
        for name in reads:
            (self.sys / "block" / name).mkdir(parents=True, exist_ok=True)
        lines = [
            DISKSTATS.format(name=name, reads=n, sectors=n * 2048, ms=n * 2, busy=n)
            for name, n in reads.items()
        ]
        self.write("proc/diskstats", "".join(lines))

    def net(self, **received: int) -> None:
        """Set the bytes that interfaces received so far."""
        rows = [f"  {n}: {b} 9 0 0 0 0 0 0 {b // 10} 9 0 0 0 0 0 0\n" for n, b in received.items()]
        head = "Inter-|   Receive  |  Transmit\n face |bytes packets |bytes packets\n"
        self.write("proc/net/dev", head + "".join(rows))

    def interface(self, name: str, *, master: str | None = None, hardware: bool = True) -> None:
        """Add an interface, enslaved to another one or not."""
        folder = self.sys / "class/net" / name
        folder.mkdir(parents=True)
        if hardware:
            (folder / "device").mkdir()
        if master:
            (folder / "master").symlink_to(self.sys / "class/net" / master)

    def process(
        self,
        pid: int,
        name: str,
        *,
        parent: int = 1,
        state: str = "S",
        user: int = 0,
        blocked: int = 0,
        read: int | None = 0,
        started: int = 500,
        wchan: str = "0",
    ) -> None:
        """Set what a process has done so far, in ticks and bytes."""
        text = STAT.format(
            pid=pid,
            name=name,
            state=state,
            parent=parent,
            user=user,
            system=0,
            started=started,
            blocked=blocked,
        )
        self.write(f"proc/{pid}/stat", text)
        self.write(f"proc/{pid}/wchan", wchan)
        if read is not None:
            self.write(f"proc/{pid}/io", f"rchar: {read}\nwchar: 0\nsyscr: 1\n")

    def kernel(self) -> Kernel:
        """Return the machine as it is read."""
        return Kernel(self.proc, self.sys)
