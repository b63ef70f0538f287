"""Mistakes in the pod-controller."""

from tests.mutants.mutant import Mistake
from tests.smoke.mistakes.entry import IN_SOAK, Entry, mistaken, one_in

_EXISTING = '        existing = self.requests.get(f"{namespace}/{name}")\n'
_CREATED = '            return "cr_created"\n'

POD_CONTROLLER: list[Entry] = [
    mistaken(
        "requests outlive their Pods",
        "pod-controller",
        # Without an owner neither we nor the garbage collector find it again.
        Mistake(
            "podcontroller/controller.py",
            "                created = await self._kube.create(CAPACITY_REQUESTS, request_of(pod, spec), namespace)\n",
            """\
                request = request_of(pod, spec)
                del request["metadata"]["ownerReferences"]
                created = await self._kube.create(CAPACITY_REQUESTS, request, namespace)
""",
        ),
        gates="requestsWithoutPodSeconds",
        seconds=65,
        long=False,
    ),
    mistaken(
        "requests ask for half",
        "pod-controller",
        Mistake(
            "podcontroller/request.py",
            "format_vector(effective_request(spec)),",
            "format_vector({name: milli // 2 for name, milli in effective_request(spec).items()}),",
        ),
        gates="requestsWrong",
    ),
    mistaken(
        "requests have no priority",
        "pod-controller",
        Mistake("podcontroller/request.py", '"priority": spec.priority,', '"priority": 0,'),
        gates="requestsWrong",
    ),
    mistaken(
        "requests say only the first of a Pod's constraints",
        "pod-controller",
        Mistake(
            "podcontroller/request.py",
            '    for expression in term.get("matchExpressions") or []:\n',
            '    for expression in (term.get("matchExpressions") or [])[:1]:\n',
        ),
        gates="requestsWrong",
    ),
    mistaken(
        "requests do not say what an interruption costs",
        "pod-controller",
        Mistake("podcontroller/request.py", "        **penalties.fields,\n", ""),
        gates="requestsWrong",
    ),
    mistaken(
        "requests of gangs do not say so",
        "pod-controller",
        Mistake("podcontroller/request.py", '        request["coLocation"] = colocation\n', "        pass\n"),
        gates="requestsWrong",
    ),
    mistaken(
        "batch Pods ask twice",
        "pod-controller",
        Mistake(
            "podcontroller/controller.py",
            _CREATED,
            f"""\
            if pod.spec.priority == 100:
                twin = request_of(pod, spec)
                twin["metadata"]["name"] += "-2"
                await self._kube.create(CAPACITY_REQUESTS, twin, namespace)
{_CREATED}""",
        ),
        Mistake(
            "podcontroller/controller.py",
            "            if request.metadata.name != except_for:\n",
            "            if except_for is None:\n",
        ),
        gates="requestsWithoutPodSeconds",
    ),
    mistaken(
        "a quarter of the new Pods gets no request",
        "pod-controller",
        Mistake(
            "podcontroller/controller.py",
            _EXISTING,
            f"""\
{_EXISTING}        if existing is None and {IN_SOAK} and {one_in(4, "name")}:
            return "cr_exists"
""",
        ),
        gates="podsWithoutRequestSeconds",
    ),
    mistaken(
        "new Pods get their request after 45 seconds",
        "pod-controller",
        Mistake(
            "podcontroller/controller.py",
            _EXISTING,
            f"""\
{_EXISTING}        if existing is None and {IN_SOAK}:
            await __import__("asyncio").sleep(45)
""",
        ),
        gates="podsWithoutRequestSeconds",
        seconds=120,
    ),
]
