"""Writes objects/testdata/digests.jsonl: JSON texts with the text that Python's json.dumps
with sort_keys makes of them, and Weave's digest of it.

Usage: python digests.py > ../../objects/testdata/digests.jsonl, with weave 0.52.42 installed (the last version that ships its server).
"""

import json
import random
import sys

from weave.shared.digest import compute_object_digest, compute_table_digest

random.seed(5)

TEXTS = [
    "0", "-0", "1", "-1", "12345678901234567890123", "1.0", "-0.0", "0.1", "1e16", "1e15", "123456789012345680.0", "9999999999999998.0", "1e-4", "1e-5", "1e-7", "1.5e300", "5e-324", "1e22",
    "1E5", "0.00001234", "100000.0", "2.50", "true", "false", "null", '""', '"a"', "[]", "{}", "[1,2.0,\"x\"]", '{"b":1,"a":2}', '{"a":1,"a":2}', '{"é":1,"z":2,"\U0001F600":3,"\\uffff":4}',
    '"\\u00e9 é \U0001F44D \\ud83d\\ude00"', '"\\ud800"', '"\\udc00\\ud800"', '"\\ud800\\ud800\\udc00"', '"\\u0000\\u001f\\u007f\\b\\f\\n\\r\\t\\"\\\\\\/"', '"</script> \u2028"',
    '{"_type":"Op","x":[{"z":null,"y":[[]]}]}', '{"A":1,"a":2,"_":3,"B":4}', "[[[[[[1]]]]]]", '{"":{"":{}}}',
]


def value(depth):
    kind = random.randrange(9 if depth < 4 else 6)
    if kind == 0:
        return random.choice([None, True, False])
    if kind == 1:
        return random.randrange(-(10 ** random.randrange(1, 25)), 10**20)
    if kind == 2:
        return random.choice([random.uniform(-1, 1), random.uniform(-1e20, 1e20), random.random() * 10 ** random.randrange(-300, 300), float(random.randrange(10**6))])
    if kind < 6:
        return "".join(random.choice("ab \"\\/\n\t\x00\x7fé€\U0001F600\ud800z") for _ in range(random.randrange(8)))
    if kind == 6:
        return [value(depth + 1) for _ in range(random.randrange(4))]
    return {"".join(random.choice("abAB_é€\U0001F600 ") for _ in range(random.randrange(4))): value(depth + 1) for _ in range(random.randrange(5))}


def line(text):
    v = json.loads(text)
    return json.dumps({"text": text, "dumps": json.dumps(v, sort_keys=True), "digest": compute_object_digest(v)})


for text in TEXTS:
    print(line(text))
for _ in range(300):
    print(line(json.dumps(value(0))))
rows = [compute_object_digest({"a": i}) for i in range(3)]
print(json.dumps({"rows": rows, "table": compute_table_digest(rows)}))
sys.stdout.flush()
