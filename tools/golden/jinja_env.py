"""The environment in which transformers renders chat templates, for the other scripts in
this folder. The versions are fixed: Python 3.11, Jinja2 3.1.6, MarkupSafe 3.0.4,
transformers 5.23.0.
"""

import copy
import datetime
import re
import sys

import jinja2
import markupsafe
import transformers
from transformers.utils.chat_template_utils import _compile_jinja_template

PINNED = {"jinja2": "3.1.6", "transformers": "5.23.0"}
for module in (jinja2, transformers):
    if module.__version__ != PINNED[module.__name__]:
        sys.exit(f"needs {module.__name__} {PINNED[module.__name__]}, found {module.__version__}")

CLOCK = datetime.datetime(2025, 7, 10, 12, 0, 0)

# transformers wraps Jinja2's Namespace and dict in classes of its own, whose names appear in
# error messages. They are replaced by the names that Jinja2 itself would show.
RENAMED = {
    "transformers.utils.chat_template_utils.TemplateNamespace": "jinja2.utils.Namespace",
    "TemplateNamespace": "Namespace",
    "_cached_compile_jinja_template.<locals>.": "",
}


def environment():
    env = _compile_jinja_template("").environment
    env.globals["strftime_now"] = CLOCK.strftime
    return env


def render(env, source, context):
    """Returns {"output": text} or {"error": "Class: text"}."""
    try:
        # A copy, because |indent changes a list that it is given by mistake.
        return {"output": env.from_string(source).render(**copy.deepcopy(context))}
    except RecursionError:
        return {"error": "RecursionError: maximum recursion depth exceeded"}
    except Exception as e:
        text = re.sub(r" \(<template>, line \d+\)$", "", str(e))
        for theirs, ours in RENAMED.items():
            text = text.replace(theirs, ours)
        return {"error": f"{type(e).__name__}: {text}"}
