"""Runs llguidance for tools/maskbench: a line of JSON with a schema and its instances on standard
input, a line with the answers and the times on standard output.

The calls are those of MaskBench's own llg_engine.py. What is timed is only the call itself:
the grammar's JSON is written before, and so is the pointer to the mask's memory, which
llguidance.numpy.fill_next_token_bitmask makes anew for each mask. The collector of Python is off.

usage: worker.py TOKENIZER_JSON COVERAGE    (COVERAGE: true or false)
"""
import gc
import json
import sys
from importlib.metadata import version
from time import perf_counter_ns as now

import llguidance
import llguidance.numpy
import tokenizers

END_TOKENS = ["<|eot_id|>", "<|end_of_text|>", "<|im_end|>", "<|endoftext|>", "</s>", "<eos>", "<end_of_turn>", "<|end|>"]


class Worker:
    def __init__(self, path, coverage):
        self.coverage = coverage
        vocabulary = tokenizers.Tokenizer.from_file(path)
        ends = [vocabulary.token_to_id(t) for t in END_TOKENS]
        self.tokenizer = llguidance.LLTokenizer(vocabulary.to_str(), eos_token=[t for t in ends if t is not None])
        masks = llguidance.numpy.allocate_token_bitmask(1, self.tokenizer.vocab_size)
        self.mask = masks[0, :]
        self.pointer, self.size = self.mask.ctypes.data, self.mask.size * self.mask.itemsize

    def compile(self, text, result):
        """Compiles the grammar in text and fills its first mask. Returns the matcher, or None."""
        start = now()
        matcher = llguidance.LLMatcher(self.tokenizer, text, log_level=0)
        if not matcher.is_error():
            matcher.unsafe_compute_mask_ptr(self.pointer, self.size)
        result["first_ns"] = now() - start
        if matcher.is_error():
            result["error"] = matcher.get_error() or "error"
            return None
        return matcher

    def answer(self, case):
        result = {"error": "", "tests": [], "first_ns": 0, "mask_ns": [], "commit_ns": []}
        if "schema" in case:
            text = json.dumps({"grammars": [{"json_schema": case["schema"]}]})
        elif "regex" in case:
            text = llguidance.LLMatcher.grammar_from_regex(case["regex"])
        else:
            text = llguidance.LLMatcher.grammar_from_lark(case["lark"])
        matcher = self.compile(text, result)
        if matcher is not None:
            for test in case["tests"]:
                result["tests"].append(self.instance(matcher.deep_copy(), test["tokens"], result))
        return result

    def instance(self, matcher, tokens, result):
        mask, masks, commits = self.mask, result["mask_ns"], result["commit_ns"]
        fill, consume, pointer, size = matcher.unsafe_compute_mask_ptr, matcher.consume_token, self.pointer, self.size
        answer = {"accepted": False, "at": 0, "error": ""}
        for token in tokens:
            if not self.coverage:
                start = now()
                fill(pointer, size)
                masks.append(now() - start)
                if matcher.is_error():
                    answer["error"] = matcher.get_error() or "error"
                    return answer
                if not int(mask[token // 32]) >> token % 32 & 1:
                    return answer
            start = now()
            ok = consume(token)
            took = now() - start
            if not ok:
                if not self.coverage:
                    answer["error"] = matcher.get_error() or "error"
                return answer
            if not self.coverage:
                commits.append(took)
            answer["at"] += 1
        answer["accepted"] = matcher.is_accepting()
        return answer


def call_time(worker):
    """The time of a method that does nothing, in nanoseconds, as the times above are taken."""
    matcher = llguidance.LLMatcher(worker.tokenizer, llguidance.LLMatcher.grammar_from_regex("a"), log_level=0)
    call, times = matcher.is_error, []
    for _ in range(10_001):
        start = now()
        call()
        times.append(now() - start)
    return sorted(times)[len(times) // 2]


def main(path, coverage):
    sys.setrecursionlimit(100_000)  # for schemas that are nested deeply
    worker = Worker(path, coverage == "true")
    gc.freeze()
    gc.disable()
    print(json.dumps({"version": version("llguidance"), "call_ns": call_time(worker)}), flush=True)
    for line in sys.stdin:
        print(json.dumps(worker.answer(json.loads(line))), flush=True)


main(*sys.argv[1:])
