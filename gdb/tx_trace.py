"""The GDB command `tx-trace`: the event trace of the RTOS that GDB debugs, live or post mortem.

    (gdb) source tx_trace.py
    (gdb) tx-trace last 50

It decodes nothing. It runs the program `tx-trace` as a child, and the child reads the target's
memory through GDB: its stdin and stdout are a GDB remote link, on which this file is the stub.
The child's output comes back on the same link, and goes through GDB's own pager.

Python 3.6 or later, standard library only. It is longer than other files of this project because
it must be one file: users source it, and `tx-trace gdb` prints it.
"""

import codecs
import os
import queue
import re
import select
import shutil
import signal
import subprocess
import textwrap
import threading
import time

import gdb

HERE = os.path.dirname(os.path.abspath(__file__)) if "__file__" in globals() else ""

# There select() takes sockets alone, and processes are no groups.
WINDOWS = os.name == "nt"
# Seconds. No wait is longer: GDB restarts system calls, so a read that blocks never sees Ctrl-C.
POLL = 0.2
# Room for a read of 4096 bytes: hex digits and a frame.
PACKET_SIZE = 0x2004
# A packet and its checksum, which a pipe does not need.
PACKET = re.compile(rb"\$([^#]*)#..", re.DOTALL)
# The child's first bytes if it reads GDB's memory. Anything else is text.
GREETING = b"+$qSupported"
# Columns, where GDB has no limit.
UNLIMITED = 10000
# The file that defines one of these has the symbols of the trace; the first is certain.
TRACE_SYMBOLS = ("_tx_trace_header_ptr", "_tx_thread_created_ptr", "_tx_version_id")
# The program's stderr gives the place where `follow` ended in a line that begins so.
PLACE = "tx-trace-place: "
# What changes the colour of a terminal.
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
FILE_OPTIONS = ("--elf", "--core", "--image", "--trace", "--events", "--output", "-o")


# What GDB reports


def find_binary():
    """The program: the setting, the environment, beside this file, or on the PATH."""
    asked = BINARY.value or os.environ.get("TX_TRACE_BIN")
    if asked:
        found = shutil.which(os.path.expanduser(asked))
        if found:
            return os.path.abspath(found)
        where = "`set tx-trace binary`" if BINARY.value else "TX_TRACE_BIN"
        raise failed(f"error: {asked} ({where}) is not a program that can be run")
    for near in ("tx-trace", "../target/release/tx-trace"):
        path = os.path.normpath(os.path.join(HERE, near)) + (".exe" if WINDOWS else "")
        if HERE and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    found = shutil.which("tx-trace")
    if found:
        return os.path.abspath(found)
    raise failed(
        "error: the program tx-trace is not on the PATH: set its place with "
        "`set tx-trace binary FILE`, or set TX_TRACE_BIN before GDB starts"
    )


def file_of_symbol(name):
    """The file that defines a symbol; None where none does, "" where GDB does not name it."""
    for lookup in ("lookup_global_symbol", "lookup_static_symbol"):
        try:
            symbol = getattr(gdb, lookup)(name)
            if symbol is not None and symbol.symtab is not None:
                return symbol.symtab.objfile.filename
        except (AttributeError, gdb.error):
            pass
    try:
        address = int(gdb.parse_and_eval(f"&'{name}'"))
        # Without debug information. The file is named only where there are several.
        where = gdb.execute(f"info symbol {address:#x}", False, True)
    except gdb.error:
        return None
    match = re.search(r" in section \S+ of (.+)$", where.strip())
    # A section's name may say "of FILE" too: only a file that GDB uses is believed.
    known = match and any(o.filename == match.group(1) for o in gdb.objfiles() if o.is_valid())
    return match.group(1) if known else ""


def trace_elf():
    """The file with the symbols of the trace; whether it is the program, whose entry GDB shows."""
    main = gdb.current_progspace().filename
    objfiles = [o for o in gdb.objfiles() if o.is_valid()]
    if not main and objfiles:
        main = objfiles[0].filename
    chosen = main
    for name in TRACE_SYMBOLS:
        found = file_of_symbol(name)
        if found is not None:
            chosen = found or main
            break
    if not chosen:
        return None, False
    # Stripped, and its symbols in a file of their own: that one has the names.
    parts = [o for o in objfiles if o.owner is not None]
    is_main = chosen == main or any(
        p.filename == chosen and p.owner.filename == main for p in parts
    )
    for part in parts:
        if part.owner.filename == chosen:
            chosen = part.filename
    if chosen.startswith("target:"):
        chosen = chosen[len("target:") :]
    return chosen, is_main


def entry_point():
    """The program's entry point, where it was loaded; None where GDB has no program."""
    try:
        text = gdb.execute("info files", False, True)
    except gdb.error:
        return None
    match = re.search(r"^\tEntry point: (0x[0-9a-f]+)", text, re.MULTILINE)
    return match.group(1) if match else None


def wants_colour(from_tty):
    """True at a terminal that shows colour. Output that a script captures is plain."""
    try:
        styled = gdb.parameter("style enabled")
    except RuntimeError:
        styled = False
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb"
    return bool(from_tty and styled and not plain and os.isatty(1))


def environment(from_tty):
    """The child's environment. Every command accepts it, and options override it."""
    env = dict(os.environ)
    env["TX_TRACE_REMOTE"] = "stdio:"
    env["TX_TRACE_COLOR"] = "always" if wants_colour(from_tty) else "never"
    width = gdb.parameter("width") or UNLIMITED
    env["COLUMNS"] = str(min(max(width, 20), UNLIMITED))
    env.pop("TX_TRACE_ENTRY", None)
    elf, is_main = trace_elf()
    if elf and os.path.isfile(elf):
        env["TX_TRACE_ELF"] = elf
        entry = entry_point() if is_main else None
        if entry:
            env["TX_TRACE_ENTRY"] = entry
    elif elf:
        warn(f"tx-trace: {elf}, whose symbols GDB uses, is not a file here: give --elf FILE\n")
    return env


def check_target():
    """Fails where GDB has no memory to read, or cannot read it now."""
    if gdb.selected_inferior().pid == 0:
        # GDB would read the program's file, where every variable is still zero.
        raise failed(
            "error: there is no process, core or remote target to read: start or attach to one, "
            "or give a file (--core FILE, --image FILE@ADDR)"
        )
    thread = gdb.selected_thread()
    if thread is not None and thread.is_running():
        raise failed("error: the target is running: interrupt it first")


def write(text, stream=None):
    """Prints through GDB, in GDB's character set."""
    stream = gdb.STDOUT if stream is None else stream
    try:
        gdb.write(text, stream)
    except UnicodeError:
        gdb.write(text.encode("ascii", "replace").decode("ascii"), stream)


def warn(text):
    """Prints diagnostics on GDB's stderr."""
    gdb.flush(gdb.STDOUT)
    write(folded(text), gdb.STDERR)


def failed(text):
    """The error that GDB prints."""
    return gdb.GdbError(folded(text))


def folded(text):
    """Lines of GDB's terminal, broken between words; elsewhere as they are."""
    width = gdb.parameter("width")
    if not width or not os.isatty(2):
        return text
    lines = []
    for line in text.split("\n"):
        plain = COLOURS.sub("", line)
        head = re.match(r"(?:[a-z-]+: )?", plain).end()
        if len(plain) < width or plain.startswith((" ", "(gdb)")):
            lines.append(line)
            continue
        # GDB itself breaks a line that is as long as its terminal is wide.
        first, *rest = textwrap.wrap(
            plain,
            max(width - 1, 20),
            subsequent_indent=" " * head,
            break_long_words=False,
            break_on_hyphens=False,
        )
        # Only the head has a colour.
        coloured = line[: len(line) - len(plain[head:])]
        lines += [coloured + first[head:]] + rest
    return "\n".join(lines)


# The child


class Link:
    """The stub's side of the link: finds packets in what the child sends, and answers them."""

    def __init__(self, may_write):
        self.may_write = may_write
        self.acks = True
        self.over = False
        self.checked = False
        self.rest = b""

    def feed(self, data):
        """Takes bytes of the child; returns what to send back and what to print."""
        data = self.rest + data
        replies, text, at = [], [], 0
        for packet in PACKET.finditer(data):
            body, at = packet.group(1), packet.end()
            if body[:1] == b"O":
                text.append(bytes.fromhex(body[1:].decode("ascii")))
                if self.acks:
                    replies.append(b"+")
                continue
            answer = self.answer(body)
            frame = b"$%s#%02x" % (answer, sum(answer) & 0xFF)
            replies.append(b"+" + frame if self.acks else frame)
            if body == b"QStartNoAckMode":
                self.acks = False
            if self.over:
                break
        self.rest = data[at:]
        if self.over:
            # Detached. What follows is text.
            text.append(self.rest)
            self.rest = b""
        return b"".join(replies), b"".join(text)

    def answer(self, body):
        """The answer to one packet."""
        if not self.checked:
            check_target()
            self.checked = True
        kind = body[:1]
        if kind == b"m":
            return self.read(body)
        if kind == b"M" and self.may_write:
            return self.store(body)
        if kind == b"D":
            self.over = True
            return b"OK"
        if body.startswith(b"qSupported"):
            return b"PacketSize=%x;QStartNoAckMode+" % PACKET_SIZE
        if body == b"QStartNoAckMode":
            return b"OK"
        if body == b"?":
            return b"S05"
        if body == b"qTxTraceRegisters":
            return self.registers()
        return b""

    @staticmethod
    def registers():
        """The registers of the selected thread: lines of NAME=VALUE, in hexadecimal as a whole."""
        try:
            frame = gdb.newest_frame()
            text = gdb.execute("info registers", False, True)
        except gdb.error:
            return b""
        # Only this lists the registers in every version of GDB. It leaves out a Cortex-M's stack
        # pointers.
        names = re.findall(r"^([A-Za-z0-9_.]+)(?:\s|$)", text, re.MULTILINE)
        lines = []
        for name in names + ["msp", "psp"]:
            try:
                lines.append(f"{name}={int(frame.read_register(name)) & 0xFFFFFFFFFFFFFFFF:x}")
            except (ValueError, TypeError, OverflowError, gdb.error):
                # No such register, no value, or no number.
                continue
        return "\n".join(lines).encode("ascii").hex().encode("ascii")

    @staticmethod
    def read(body):
        """m ADDRESS,LENGTH"""
        address, length = (int(n, 16) for n in body[1:].split(b","))
        try:
            return bytes(gdb.selected_inferior().read_memory(address, length)).hex().encode("ascii")
        except (gdb.MemoryError, OverflowError):
            return b"E01"

    @staticmethod
    def store(body):
        """M ADDRESS,LENGTH:BYTES"""
        place, digits = body[1:].split(b":", 1)
        try:
            data = bytes.fromhex(digits.decode("ascii"))
            gdb.selected_inferior().write_memory(int(place.split(b",")[0], 16), data)
        except (gdb.MemoryError, ValueError, OverflowError):
            return b"E01"
        return b"OK"


class Pipes:
    """What the child writes, as it comes."""

    def __init__(self, fds):
        for fd in fds:
            os.set_blocking(fd, False)

    def wait(self, fds, sending):
        """The bytes of those that have some or ended, and whether `sending` takes more."""
        readable, writable, _ = select.select(list(fds), sending, [], POLL)
        return [(fd, self.receive(fd)) for fd in readable], bool(writable)

    @staticmethod
    def receive(fd):
        """The bytes that are there; b"" at the end."""
        try:
            return os.read(fd, 1 << 16)
        except BlockingIOError:
            return b""


class PipesOfWindows:
    """The same where nothing waits for a pipe: a thread reads each."""

    def __init__(self, fds):
        self.came = queue.Queue()
        for fd in fds:
            threading.Thread(target=self.read, args=(fd,), daemon=True).start()

    def read(self, fd):
        """Reads one to its end."""
        data = b"?"
        while data:
            try:
                data = os.read(fd, 1 << 16)
            except OSError:
                data = b""
            self.came.put((fd, data))

    def wait(self, _fds, sending):
        """The bytes of one that has some or ended. A write blocks: the child takes it."""
        if sending:
            return [], True
        try:
            return [self.came.get(timeout=POLL)], False
        except queue.Empty:
            return [], False


class Child:
    """One run of the program, from its start until it is reaped."""

    def __init__(self, may_write):
        # None until it has started.
        self.process = None
        self.link = Link(may_write)
        # None until its first bytes show whether it reads memory through us.
        self.linked = None
        self.unsent = b""
        self.first = b""
        self.diagnostics = b""
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def start(self, words, env):
        """Starts it. Ctrl-C waits: within Popen it would leave a process that nobody ends."""
        before = None if WINDOWS else signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:
            if before is not None:
                # The child inherits this, and receives SIGINT again when it has begun.
                signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
            # In a session of its own: GDB receives Ctrl-C, and passes it on.
            self.process = subprocess.Popen(
                words,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=not WINDOWS,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        except OSError as e:
            raise failed(f"error: {words[0]} cannot be run: {e.strerror}") from e
        finally:
            if before is not None:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def connect(self):
        """Prepares its pipes."""
        self.to = self.process.stdin.fileno()
        self.out = self.process.stdout.fileno()
        self.err = self.process.stderr.fileno()
        if WINDOWS:
            self.pipes = PipesOfWindows((self.out, self.err))
        else:
            os.set_blocking(self.to, False)
            self.pipes = Pipes((self.out, self.err))

    def run(self, words, env):
        """Starts it, and serves it until it ends; returns its exit status and its stderr."""
        try:
            self.start(words, env)
            self.connect()
            open_fds = {self.out, self.err}
            while open_fds:
                sending = [self.to] if self.unsent else []
                came, writable = self.pipes.wait(open_fds, sending)
                if writable:
                    self.send()
                for fd, data in came:
                    if not data:
                        open_fds.discard(fd)
                    elif fd == self.err:
                        self.diagnostics += data
                    else:
                        self.receive(data)
                if not came and not writable and self.process.poll() is not None:
                    # A process that it started holds its pipes.
                    break
            self.show(self.first, True)
            while True:
                try:
                    return self.process.wait(POLL), self.diagnostics.decode("utf-8", "replace")
                except subprocess.TimeoutExpired:
                    pass
        finally:
            self.end()

    def receive(self, data):
        """Bytes from its stdout: packets, or plain text."""
        if self.linked is None:
            self.first += data
            if len(self.first) < len(GREETING) and GREETING.startswith(self.first):
                return
            self.linked = self.first.startswith(GREETING)
            data, self.first = self.first, b""
        if not self.linked:
            self.show(data)
            return
        reply, text = self.link.feed(data)
        self.unsent += reply
        # Before the text: GDB's pager may hold us for long.
        self.send()
        self.show(text)

    def show(self, text, final=False):
        """Prints."""
        text = self.decoder.decode(text, final)
        if text:
            write(text)

    def send(self):
        """As much as the pipe takes; the rest waits."""
        try:
            while self.unsent:
                self.unsent = self.unsent[os.write(self.to, self.unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            # It ended: the reason comes on its stderr.
            self.unsent = b""

    def end(self):
        """Ends the process and closes its pipes, whatever happened."""
        process = self.process
        if process is None:
            return
        try:
            if process.poll() is None and not self.linked:
                # It may have a target of its own, and detaches from it.
                self.interrupt()
                deadline = time.monotonic() + 2
                while process.poll() is None and time.monotonic() < deadline:
                    time.sleep(0.01)
        finally:
            if process.poll() is None:
                self.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                pipe.close()

    def interrupt(self):
        """Ctrl-C for the process and what it started."""
        if WINDOWS:
            # The only one that a group of its own receives.
            self.process.send_signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGINT))
        else:
            self.signal(signal.SIGINT)

    def kill(self):
        """Ends the process and what it started at once."""
        if WINDOWS:
            self.process.kill()
        else:
            self.signal(signal.SIGKILL)

    def signal(self, number):
        """Sends a signal to the process and to what it started."""
        try:
            os.killpg(self.process.pid, number)
        except OSError:
            self.process.send_signal(number)


def failure(diagnostics):
    """Splits the stderr of a child that failed: what came before, and why it failed."""
    lines = diagnostics.rstrip("\n").split("\n")
    start = len(lines) - 1
    while start > 0 and not COLOURS.sub("", lines[start]).startswith("error: "):
        start -= 1
    before = "".join(line + "\n" for line in lines[:start])
    return before, "\n".join(lines[start:])


def set_status(status):
    """$_tx_trace_exit"""
    if hasattr(gdb, "set_convenience_variable"):
        gdb.set_convenience_variable("_tx_trace_exit", status)
    else:
        gdb.execute(f"set $_tx_trace_exit = {status}", False, True)


def forward(words, from_tty):
    """Runs the program with these words; returns the place where `follow` ended."""
    if words[:1] == ["control"] and words[1:2] in (["enable"], ["disable"]):
        call_kernel(words[1:], from_tty)
        return None
    return run_binary(words, from_tty)


def run_binary(words, from_tty):
    """The same, whatever the words are."""
    # An error, until the program has ended.
    set_status(2)
    binary = find_binary()
    env = environment(from_tty)
    child = Child(may_write=words[:1] == ["control"])
    try:
        status, diagnostics = child.run([binary] + words, env)
    except gdb.GdbError:
        raise
    except gdb.error as e:
        # The target is gone, or GDB cannot read it now.
        raise failed(f"error: GDB could not go on: {e}") from e
    if status < 0:
        raise failed(f"{diagnostics}error: {binary} was ended by signal {-status}")
    set_status(status)
    place, diagnostics = split_place(diagnostics)
    if status >= 2:
        before, reason = failure(diagnostics)
        if before:
            warn(before)
        raise failed(reason or f"error: {binary} ended with {status} and no reason")
    if diagnostics:
        warn(diagnostics)
    return place


def split_place(diagnostics):
    """The place where `follow` ended, and the rest of the diagnostics."""
    lines = diagnostics.splitlines(True)
    places = [line[len(PLACE) :].strip() for line in lines if line.startswith(PLACE)]
    rest = "".join(line for line in lines if not line.startswith(PLACE))
    return (places[-1] if places else None), rest


# Following


class Follow:
    """Prints at every stop what is new since the last one."""

    def __init__(self):
        self.options = None
        self.place = None

    def on(self, options, from_tty):
        """Starts with the events from now on."""
        self.off()
        self.place = forward(["follow", "--after", "now"] + options, from_tty)
        self.options = options
        gdb.events.stop.connect(self.stopped)
        gdb.events.exited.connect(self.exited)

    def off(self):
        """Stops following."""
        if self.options is not None:
            self.options = None
            gdb.events.stop.disconnect(self.stopped)
            gdb.events.exited.disconnect(self.exited)

    def stopped(self, _event):
        """The target has stopped. An error here must not break GDB's own handling."""
        try:
            words = ["follow", "--after", self.place or "now"] + self.options
            self.place = forward(words, True) or self.place
        except gdb.GdbError as e:
            warn(f"{e}\n")
        except KeyboardInterrupt:
            warn("tx-trace: interrupted; `tx-trace follow off` ends following\n")

    def exited(self, _event):
        """The program has ended."""
        self.off()
        warn("tx-trace: the program has ended: follow is off\n")


FOLLOW = Follow()


# The kernel's own functions, which only a debugger can call

STATUS = {
    0: "TX_SUCCESS",
    0x05: "TX_SIZE_ERROR: the buffer is too small for these entries and one event",
    0x20: "TX_NOT_DONE: the trace is in that state already",
    0xFF: "TX_FEATURE_NOT_ENABLED: the kernel was built without TX_ENABLE_EVENT_TRACE",
}
USAGE = "control enable BUFFER SIZE [ENTRIES] [--range ADDR..ADDR] --yes, or control disable --yes"
# Registry entries where none are given.
ENTRIES = "32"


def evaluate(expression):
    """The number that an expression of the user, or the quoted name of a symbol, has in GDB."""
    try:
        return int(gdb.parse_and_eval(expression).cast(gdb.lookup_type("unsigned long")))
    except gdb.error as e:
        raise failed(f"error: {expression}: {first_line(e)}") from e


def first_line(error):
    """The first line of GDB's explanation."""
    return (str(error).splitlines() or ["GDB gives no reason"])[0].rstrip(".")


def take_ranges(words):
    """Splits off `--range ADDR..ADDR`."""
    ranges, rest = [], list(words)
    while "--range" in rest[:-1]:
        at = rest.index("--range")
        ranges += rest[at : at + 2]
        del rest[at : at + 2]
    return ranges, rest


def pointer_at(name):
    """The pointer in a variable of the kernel, whatever its type in the program."""
    pointer = gdb.lookup_type("unsigned long").pointer()
    return int(gdb.parse_and_eval(f"&'{name}'").cast(pointer).dereference())


def refuse_macros(names):
    """Fails where GDB would expand one of these names as a macro of the program."""
    for name in names:
        if "#define" in gdb.execute(f"info macro -a -- {name}", False, True):
            raise failed(
                f"error: nothing is called: {name} is a macro in this program; select a frame "
                "of a file that does not define it (frame N)"
            )


def call_kernel(words, from_tty):
    """`control enable BUFFER SIZE [ENTRIES]` and `control disable`."""
    set_status(2)
    ranges, words = take_ranges(words)
    yes = "--yes" in words
    verb, arguments = words[0], [w for w in words[1:] if w != "--yes"]
    fits = len(arguments) in (2, 3) if verb == "enable" else not arguments
    if not fits or any(a.startswith("--") for a in arguments):
        raise failed(f"error: the forms are: {USAGE}")
    check_target()
    name = f"_tx_trace_{verb}"
    evaluate(f"&'{name}'")
    if verb == "enable":
        numbers = [evaluate(a) for a in (arguments + [ENTRIES])[:3]]
        call = "{:#x}, {}, {}".format(*numbers)
        types = "void *, unsigned long, unsigned long"
        values = "(void *) {:#x}, {}, {}".format(*numbers)
        buffer = [hex(n) for n in numbers[:2]]
    else:
        call, types, values, buffer = "", "void", "", []
    # This fails where the kernel must not be called.
    run_binary(["control", "check-call"] + buffer + ranges, from_tty)
    set_status(2)
    warn(f"tx-trace: to call: {name}({call}) on the target\n")
    if not yes:
        raise failed("error: nothing is called without --yes")
    refuse_macros(("unsigned", "int", "long", "void"))
    try:
        result = gdb.parse_and_eval(f"((unsigned int (*) ({types})) &'{name}') ({values})")
        status = int(result) & 0xFFFFFFFF
    except gdb.error as e:
        raise failed(f"error: the target cannot run {name}: {first_line(e)}") from e
    warn(f"tx-trace: {name} returned {STATUS.get(status, hex(status))}\n")
    if status == 0:
        inserts = pointer_at("_tx_trace_buffer_current_ptr") != 0
        if inserts != (verb == "enable"):
            raise failed(
                f"error: {name} returned success, but the kernel's trace pointer shows no change"
            )
    set_status(0 if status == 0 else 1)


# Help and completion, which come from the program


def file_names(begun):
    """Files whose names begin so."""
    directory, name = os.path.split(begun)
    try:
        with os.scandir(os.path.expanduser(directory) or ".") as entries:
            found = [
                e.name + ("/" if e.is_dir() else "") for e in entries if e.name.startswith(name)
            ]
    except OSError:
        return []
    return sorted(os.path.join(directory, f) for f in found if name or not f.startswith("."))


def short_class(name):
    """TX_TRACE_QUEUE_EVENTS may be typed as tx_queue."""
    return re.sub(r"_events?$", "", name.lower().replace("_trace_", "_"))


class HelpCache:
    """Commands, options and names that one binary reports; each is asked for once."""

    def __init__(self, binary):
        self.binary = binary
        self.answers = {}

    def ask(self, *words):
        """The lines that it prints for these words; none where it fails."""
        if words not in self.answers:
            try:
                done = subprocess.run(
                    (self.binary,) + words,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    timeout=2,
                    start_new_session=True,
                )
                text = done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""
            except (OSError, subprocess.SubprocessError):
                text = ""
            self.answers[words] = text.splitlines()
        return self.answers[words]

    def table(self):
        """The program's own table: [command, what it does] and [command, option, values]."""
        return [line.split("\t") for line in self.ask("gdb", "--commands")]

    def commands(self):
        """Names and what they do."""
        return [tuple(row) for row in self.table() if len(row) == 2]

    def options(self, command):
        """The options of a command, each with its values where it has a list of them."""
        rows = [row for row in self.table() if len(row) == 3 and row[0] == command]
        return {option: values.split(",") if values else [] for _, option, values in rows}

    def values(self, command, option):
        """The values of an option that has a list of them."""
        if option in ("--event", "--class"):
            column = "name" if option == "--event" else "class"
            rows = [line.split(",") for line in self.ask("events", "--format", "csv")]
            if rows and column in rows[0]:
                at = rows[0].index(column)
                found = {row[at] for row in rows[1:] if len(row) > at and row[at]}
                return sorted(found if option == "--event" else map(short_class, found))
            return []
        return self.options(command).get(option, [])


HELP_CACHES = {}


def help_cache():
    """The help cache of the binary that would run now."""
    binary = find_binary()
    if binary not in HELP_CACHES:
        HELP_CACHES[binary] = HelpCache(binary)
    return HELP_CACHES[binary]


# GDB's commands and settings


# Not a docstring: GDB before 12 shows its indentation.
HELP = """What the RTOS did last: its event trace, out of the target's memory.

Usage: tx-trace COMMAND [ARGUMENT]... [OPTION]...

    tx-trace last 50                    the newest 50 events
    tx-trace last 5ms --thread control  what one thread did in the last 5 ms
    tx-trace list --class queue         every event on queues
    tx-trace show -1                    the newest event in full

The program tx-trace does the work and reads memory through GDB, live or post mortem;
a source that is given (--core FILE, --image FILE@ADDR, --trace FILE, --remote ENDPOINT)
is read instead. `tx-trace --help` and `tx-trace COMMAND --help` list all options.
$_tx_trace_exit is 0 after success, 1 for not found, 2 for an error."""


class Forward(gdb.Command):
    """A command of the program."""

    def __init__(self, command, text):
        self.command = command
        self.__doc__ = (
            f"{text}.\n\nUsage: tx-trace {command} [ARGUMENT]... [OPTION]...\n\n"
            f"`tx-trace {command} --help` lists them all.\n"
            "Memory is read through GDB, unless --core, --image, --trace or --remote is given."
        )
        super().__init__(f"tx-trace {command}", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        """Runs it."""
        if self.command == "control":
            # Enter must not write to the target again.
            self.dont_repeat()
        words = gdb.string_to_argv(argument)
        if self.command == "follow" and words[:1] in (["on"], ["off"]):
            self.dont_repeat()
            if words[0] == "on":
                FOLLOW.on(words[1:], from_tty)
            else:
                FOLLOW.off()
            return
        forward([self.command] + words, from_tty)

    def complete(self, text, word):
        """Options, and the values of those that have a list."""
        typed = text.split(" ")[-1]
        before = text[: len(text) - len(typed)].split()
        option, equals, value = typed.partition("=")
        try:
            if equals and option.startswith("--"):
                known = [f"{option}={name}" for name in self.values(option, value)]
            elif typed.startswith("-"):
                known = sorted(help_cache().options(self.command))
            else:
                known = self.values(before[-1] if before else "", typed)
        except gdb.GdbError:
            known = []
        # GDB breaks words at `-` and others, and wants what comes after the break.
        gone = len(typed) - len(word or "")
        return [name[gone:] for name in known if name.startswith(typed)]

    def values(self, option, begun):
        """The values that an option can have."""
        if option in FILE_OPTIONS:
            return file_names(begun)
        return help_cache().values(self.command, option) if option.startswith("--") else []


class Prefix(gdb.Command):
    __doc__ = HELP

    def __init__(self):
        super().__init__("tx-trace", gdb.COMMAND_DATA, prefix=True)

    def invoke(self, argument, from_tty):
        """A command that GDB does not know, options, or nothing."""
        forward(gdb.string_to_argv(argument) or ["--help"], from_tty)


class SetPrefix(gdb.Command):
    """Settings of tx-trace."""

    def __init__(self, verb):
        super().__init__(f"{verb} tx-trace", gdb.COMMAND_DATA, prefix=True)


class Binary(gdb.Parameter):
    __doc__ = "Without it: TX_TRACE_BIN in the environment, beside tx_trace.py, or on the PATH."

    set_doc = "Set the program that the command tx-trace runs."
    show_doc = "Show the program that the command tx-trace runs."

    def __init__(self):
        super().__init__("tx-trace binary", gdb.COMMAND_DATA, gdb.PARAM_OPTIONAL_FILENAME)
        self.value = ""

    def get_set_string(self):
        """Another program may know other commands."""
        register()
        return ""

    def get_show_string(self, value):
        """The one that is set, or found."""
        try:
            return f"tx-trace runs {find_binary()}"
        except gdb.GdbError as e:
            return str(e)


KNOWN = set()


def register():
    """Defines a GDB command for each command of the program. Others are forwarded without help."""
    try:
        commands = help_cache().commands()
    except gdb.GdbError:
        return
    for name, text in commands:
        if (name, text) not in KNOWN:
            KNOWN.add((name, text))
            Forward(name, text)


SetPrefix("set")
SetPrefix("show")
BINARY = Binary()
Prefix()
register()
