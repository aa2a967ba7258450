"""GDB commands for scripts/fixtures-crashes: what is true of a failure, as crashes.c noted it."""

import gdb


def number(text):
    return int(gdb.parse_and_eval(text)) & 0xFFFFFFFF


class CrashTruth(gdb.Command):
    """crash-truth NAME PATH: what code and handler noted, and the registers at the stop."""

    def __init__(self):
        super().__init__("crash-truth", gdb.COMMAND_USER)

    def invoke(self, words, from_tty):
        name, path = words.split()
        truth = gdb.parse_and_eval("crash_truth")

        def get(field):
            return int(truth[field]) & 0xFFFFFFFF

        function = truth["function"].string() if get("function") else "-"
        written, in_isr = get("written"), get("in_isr")
        pc, sp = get("pc"), get("sp")
        # What an exception pushes: 32 bytes, aligned to 8.
        frame = (sp - 32) & ~7 if written and name != "assert" else 0
        if frame and number("*(unsigned *)%d" % (frame + 24)) != pc:
            raise gdb.GdbError("no pc at the frame")
        if get("frame") and frame and get("frame") != frame:
            raise gdb.GdbError("the handler found another frame")
        null = name in ("null_call", "isr_null_call")
        rows = [
            ("failure", name),
            ("pc", "%#x" % pc if written else "-"),
            ("function", "-" if null else function),
            ("caller", function if null else "-"),
            ("line", get("line") if get("line") and not null else "-"),
            ("thread", truth["thread"]["tx_thread_name"].string() if get("thread") else "-"),
            ("in_isr", in_isr),
            ("sp", "%#x" % sp if written else "-"),
            ("frame", "%#x" % frame if frame else "-"),
            ("psp", "-" if name == "assert" else "%#x" % (get("psp") or frame)),
            ("exc_return", "%#x" % get("exc_return") if get("exc_return") else "-"),
            ("cfsr", "%#x" % number("*(unsigned *)0xE000ED28")),
            ("hfsr", "%#x" % number("*(unsigned *)0xE000ED2C")),
        ]
        for register in ["r%d" % n for n in range(13)] + ["sp", "lr", "pc", "xpsr"]:
            rows.append(("reg." + register, "%#x" % number("$" + register)))
        with open(path, "w") as f:
            f.writelines("%s\t%s\n" % row for row in rows)


class UntilTruth(gdb.Command):
    """Goes on to the instruction that fails, where no handler follows."""

    def __init__(self):
        super().__init__("until-truth", gdb.COMMAND_USER)

    def invoke(self, _, from_tty):
        for _ in range(200):
            if number("crash_truth.pc") and number("$pc") == number("crash_truth.pc"):
                return
            gdb.execute("stepi", to_string=True)
        raise gdb.GdbError("it does not come there")


CrashTruth()
UntilTruth()
