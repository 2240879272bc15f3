"""The conversations and the templates of toolcalls.py.

ends are the texts that may end a turn, of which the first that is there counts. arguments "text"
says that a template takes arguments as the text that a client sent, and not as objects, and lax
that transformers would not render it. empty is the content of a message without one, and wrong are
conversations whose turns are not what the model is to write: strings are not quoted, or text is
taken for thoughts. write makes the text of a message whose calls a template would leave out or write in
another way than its own prompt demands: the form that is documented for the model.

FORMS are documented forms of models whose templates are in neither package. They are written as
they stand, and rendered by no template.
"""

import json


def objects(calls):
    return [{"name": name, "arguments": arguments} for name, arguments in calls]


def after_word(calls):
    """As the prompt of vLLM's template for Phi-4-mini demands."""
    return "functools" + json.dumps(objects(calls), ensure_ascii=False)


def between_tokens(calls):
    """As Phi-4-mini answers its own template (phi_fc.py of the Berkeley Function-Calling Leaderboard)."""
    return "<|tool_call|>" + json.dumps(objects(calls), ensure_ascii=False) + "<|/tool_call|>"


def longcat_objects(calls):
    """As the model card of LongCat Flash Chat has it."""
    return "\n".join(f"<longcat_tool_call>\n{json.dumps(o, ensure_ascii=False)}\n</longcat_tool_call>" for o in objects(calls))


def longcat_tags(calls):
    """As later LongCat models write (mlx_lm/tool_parsers/longcat.py)."""
    texts = []
    for name, arguments in calls:
        text = f"<longcat_tool_call>{name}\n"
        for key, value in arguments.items():
            value = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            text += f"<longcat_arg_key>{key}</longcat_arg_key>\n<longcat_arg_value>{value}</longcat_arg_value>\n"
        texts.append(text + "</longcat_tool_call>")
    return "\n".join(texts)


def tool(name, properties):
    return {"type": "function", "function": {"name": name, "description": f"The tool {name}.", "parameters": {
        "type": "object", "properties": properties, "required": [k for k in properties if k != "days"]}}}


TOOLS = [
    tool("weather", {"city": {"type": "string", "description": "the city"}, "days": {"type": "integer"}}),
    tool("now", {}),
    tool("note", {"text": {"type": "string"}, "title": {"type": "string"}}),
    tool("place", {
        "at": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}}, "required": ["lat", "lon"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "open": {"type": "boolean"},
        "owner": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "rest": {"type": "object", "properties": {"list": {"type": "array", "items": {"type": "integer"}}}, "required": ["list"]},
    }),
    tool("sum_up", {"small": {"type": "number"}, "big": {"type": "integer"}, "minus": {"type": "integer"}, "tiny": {"type": "number"}, "digits": {"type": "string"}}),
]

WEATHER = ("weather", {"city": "Köln", "days": 2})
NOW = ("now", {})

CONVERSATIONS = [
    {"name": "one call", "calls": [WEATHER]},
    {"name": "text before", "content": "Let me see, {it} is [near].", "calls": [WEATHER]},
    {"name": "empty arguments", "calls": [NOW]},
    {"name": "two calls", "calls": [WEATHER, NOW]},
    {"name": "three calls after text", "content": "Well:\n\n1. this", "calls": [NOW, WEATHER, ("weather", {"city": "東京"})]},
    {"name": "nested", "calls": [("place", {"at": {"lat": 48.1, "lon": -11.5}, "tags": ["a", "b c"], "open": True, "owner": None, "rest": {"list": [1, 2]}})]},
    {"name": "escapes", "calls": [("note", {"text": "He said \"hi\",\n\tthen C:\\new\\dir; it's <b>50 % & more</b> {x: [1]}", "title": "naïve 日本 😀"})]},
    {"name": "blanks and marks", "calls": [("note", {"text": "  two  blanks ", "title": "</tool call> } ] ) \"}"})]},
    {"name": "numbers", "calls": [("sum_up", {"small": 0.5, "big": 12345678901, "minus": -3, "tiny": 1e-07, "digits": "007"})]},
    {"name": "thoughts", "reasoning": "Hm, they ask for the weather.", "calls": [WEATHER]},
    {"name": "thoughts and text", "reasoning": "First this,\nthen that.", "content": "Let me see.", "calls": [WEATHER, NOW]},
]

IM = ["<|im_end|>"]
EOT = ["<|eot_id|>", "<|eom_id|>"]
DEEPSEEK = ["<｜end▁of▁sentence｜>"]

# What templates write wrong: strings without quotes, and everything as a string, with its quotes
# and backslashes as they are.
MISQUOTED = [c["name"] for c in CONVERSATIONS if c["name"] != "empty arguments"]

FAMILIES = [
    {"format": "hermes", "template": "Qwen-Qwen2.5-7B-Instruct.jinja", "ends": IM},
    {"format": "hermes", "template": "Qwen-Qwen3-0.6B.jinja", "ends": IM},
    {"format": "hermes", "template": "NousResearch-Hermes-3-Llama-3.1-8B-tool_use.jinja", "ends": IM},
    {"format": "hermes", "template": "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use.jinja", "ends": IM},
    {"format": "hermes", "template": "Qwen-QwQ-32B.jinja", "ends": IM},
    {"format": "qwen3_coder", "template": "Qwen3-Coder.jinja", "ends": IM},
    {"format": "qwen3_coder", "template": "Qwen3.5-4B.jinja", "ends": IM},
    {"format": "qwen3_coder", "template": "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.jinja", "ends": IM},
    {"format": "seed_oss", "template": "ByteDance-Seed-OSS.jinja", "ends": ["<seed:eos>"]},
    {"format": "glm45", "template": "GLM-4.6.jinja", "ends": ["<|observation|>", ""]},
    {"format": "glm45", "template": "GLM-4.7-Flash.jinja", "ends": ["<|observation|>", ""]},
    {"format": "minimax_m2", "template": "MiniMax-M2.jinja", "ends": ["[e~["]},
    {"format": "minimax", "template": "tool_chat_template_minimax_m1.jinja", "ends": ["<end_of_sentence>"]},
    {"format": "deepseek_v3", "template": "tool_chat_template_deepseekr1.jinja", "ends": DEEPSEEK},
    {"format": "deepseek_v3", "template": "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja", "ends": DEEPSEEK, "empty": None, "wrong": ["text before", "three calls after text", "thoughts and text"]},
    {"format": "deepseek_v31", "template": "deepseek-ai-DeepSeek-V3.1.jinja", "ends": DEEPSEEK, "variables": {"thinking": True}},
    {"format": "deepseek_v32", "template": "deepseek-ai-DeepSeek-V3.2.jinja", "ends": DEEPSEEK, "arguments": "text", "variables": {"thinking": True, "enable_thinking": True}, "lax": True},
    {"format": "deepseek_v4", "template": "deepseek-ai-DeepSeek-V4.jinja", "ends": DEEPSEEK, "arguments": "text", "variables": {"thinking": True, "enable_thinking": True}, "lax": True},
    {"format": "deepseek_v4", "template": "deepseek-ai-DeepSeek-V4-Flash-0731.jinja", "ends": DEEPSEEK, "arguments": "text", "variables": {"thinking": True, "enable_thinking": True}, "lax": True},
    {"format": "kimi_k2", "template": "moonshotai-Kimi-K2.jinja", "ends": IM},
    {"format": "kimi_k2", "template": "Kimi-K2-Instruct.jinja", "ends": IM, "arguments": "text", "lax": True},
    {"format": "kimi_k2", "template": "Kimi-K2-Thinking.jinja", "ends": IM, "arguments": "text", "lax": True},
    {"format": "mistral", "template": "mistralai-Mistral-Nemo-Instruct-2407.jinja", "ends": ["</s>", ""]},
    {"format": "mistral", "template": "Mistral-Small-3.2-24B-Instruct-2506.jinja", "ends": ["</s>", ""]},
    {"format": "mistral", "template": "mistralai-Ministral-3-14B-Reasoning-2512.jinja", "ends": ["</s>", ""]},
    {"format": "mistral", "template": "unsloth-mistral-Devstral-Small-2507.jinja", "ends": ["</s>", ""]},
    {"format": "llama3_json", "template": "meta-llama-Llama-3.1-8B-Instruct.jinja", "ends": EOT},
    {"format": "llama3_json", "template": "meta-llama-Llama-3.2-3B-Instruct.jinja", "ends": EOT},
    {"format": "llama3_json", "template": "meta-llama-Llama-3.3-70B-Instruct.jinja", "ends": EOT},
    {"format": "llama3_json", "template": "tool_chat_template_llama4_json.jinja", "ends": ["<|eot|>", "<|eom|>"]},
    {"format": "pythonic", "template": "tool_chat_template_llama3.2_pythonic.jinja", "ends": EOT, "wrong": MISQUOTED},
    {"format": "llama4_pythonic", "template": "tool_chat_template_llama4_pythonic.jinja", "ends": ["<|eot|>", "<|eom|>"], "wrong": MISQUOTED},
    {"format": "granite", "template": "tool_chat_template_granite.jinja", "ends": ["<|end_of_text|>"]},
    {"format": "granite4", "template": "ibm-granite-granite-4.0.jinja", "ends": ["<|end_of_text|>"]},
    {"format": "granite4", "template": "ibm-granite-granite-4.1.jinja", "ends": ["<|end_of_text|>"]},
    {"format": "granite-20b-fc", "template": "tool_chat_template_granite_20b_fc.jinja", "ends": ["<|endoftext|>", ""]},
    {"format": "phi4_mini_json", "template": "tool_chat_template_phi4_mini.jinja", "ends": ["<|end|><|assistant|>"], "write": after_word},
    {"format": "phi4_mini_json", "template": "microsoft-Phi-4-mini-instruct.jinja", "ends": ["<|end|>"], "write": between_tokens},
    {"format": "phi4_mini_json", "template": "llama-cpp-microsoft-Phi-4-mini-instruct.jinja", "ends": ["<|end|>"]},
    {"format": "jamba", "template": "ai21labs_AI21-Jamba-Large-1.6.jinja", "ends": ["<|eom|>", ""]},
    {"format": "hunyuan_a13b", "template": "tool_chat_template_hunyuan_a13b.jinja", "ends": ["<|eos|>", ""]},
    {"format": "internlm", "template": "tool_chat_template_internlm2_tool.jinja", "ends": IM},
    {"format": "lfm2", "template": "LFM2.5-8B-A1B.jinja", "ends": IM, "wrong": ["escapes"]},
    {"format": "gemma4", "template": "google-gemma-4-31B-it.jinja", "ends": ["<|tool_response>", "<turn|>", ""]},
    {"format": "openai", "template": "openai-gpt-oss-120b.jinja", "ends": ["<|call|>"], "wrong": ["text before"]},
]

FORMS = [
    {"format": "longcat", "template": "LongCat-Flash-Chat, its model card", "write": longcat_objects},
    {"format": "longcat", "template": "LongCat, as later models write", "write": longcat_tags},
]
