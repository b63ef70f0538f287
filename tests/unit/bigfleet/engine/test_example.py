"""The worked example of docs/engine.md is what the engine decides."""

import doctest
import re

from scaletest.project import PROJECT

PAGE = PROJECT / "docs" / "engine.md"


def test_the_example_in_the_docs_comes_out_as_written() -> None:
    text = PAGE.read_text()
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
    example = doctest.DocTestParser().get_doctest(code, {}, "docs/engine.md", str(PAGE), 0)
    said: list[str] = []
    results = doctest.DocTestRunner().run(example, out=said.append)
    assert results.failed == 0, "".join(said)
    assert results.attempted > 20
