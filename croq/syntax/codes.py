"""The syntax stage's own diagnostic codes; those of the language reference are written where they are reported."""

from __future__ import annotations

NO_SUCH_FILE = "E-2001"
UNREADABLE = "E-2002"
NOT_UTF8 = "E-2003"
BINARY = "E-2004"
NO_KERNEL = "E-2005"
TOO_LARGE = "E-2006"
TOO_DEEP = "E-2007"
MACRO_LIMIT = "E-2008"
BAD_DEFINE = "E-2009"
NOT_YET = "E-2010"

SYNTAX = "E-200"
DIRECTIVE = "E-210"

REDEFINED = "W-2001"  # a `#define` in the file replaces a macro of the command line
IDLE_DIRECTIVE = "W-2002"  # a directive that does nothing inside a `__co__` function
NOT_FOLLOWED = "W-2003"  # an `#include` of a header that may hold more than host code
UNUSED_DEFINE = "W-2004"  # a macro of the command line that the file never mentions

MAX_FILE_BYTES = 4 << 20
MAX_NESTING = 200  # levels of the syntax tree: later stages walk it recursively
MAX_TOKENS = 200_000  # of one function, after macro expansion
MAX_MACRO_DEPTH = 64
