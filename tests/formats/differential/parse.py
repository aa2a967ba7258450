"""Reads traces with the tracex_parser package and prints what it makes of them.

    parse.py FILE...

One line an event, tab between: number of the file, context word, priority word, id, stamp, four
words of information (all as decimal numbers), name of the context (JSON, null where it has none).
"""

import contextlib
import io
import json
import sys

from tracex_parser.file_parser import parse_tracex_buffer

out = sys.stdout
for number, path in enumerate(sys.argv[1:]):
    # The library prints what it does not know to standard output.
    with contextlib.redirect_stdout(io.StringIO()):
        events, _ = parse_tracex_buffer(path)
    for e in events:
        fields = [number, e.thread_ptr, e.thread_priority, e.id, e.timestamp, *e.raw_args]
        print(*fields, json.dumps(e.thread_name), sep="\t", file=out)
