"""What kernels have in common: vectors, and taking free machines off their pools in order of cost."""

from bigfleet.engine.kernels.jit import helper

SATURATED = 2**62


@helper
def fits(allocatable, vector, units, row):
    """Whether a machine with this allocatable offers what the row needs of each machine."""
    for d in range(units.shape[1]):
        if units[row, d] > 0 and allocatable[vector, d] < units[row, d]:
            return False
    return True


@helper
def is_short(missing, row):
    for d in range(missing.shape[1]):
        if missing[row, d] > 0:
            return True
    return False


@helper
def subtract(missing, row, allocatable, vector):
    """A machine serves the row, with all it has."""
    for d in range(missing.shape[1]):
        if missing[row, d] > 0:
            missing[row, d] = max(0, missing[row, d] - allocatable[vector, d])


@helper
def head_before(a, b, state, bucket, pools, seg_rows, seg_starts, costs, labels, taken):
    """Whether the next machine of kind a is taken before that of kind b: cost, then id."""
    if costs[bucket, a] != costs[bucket, b]:
        return costs[bucket, a] < costs[bucket, b]
    row_a = seg_rows[seg_starts[pools[state, a]] + taken[state, a]]
    row_b = seg_rows[seg_starts[pools[state, b]] + taken[state, b]]
    return labels[row_a] < labels[row_b]


@helper
def sift_down(heap, parent, size, state, bucket, pools, seg_rows, seg_starts, costs, labels, taken):
    while True:
        child = 2 * parent + 1
        if child >= size:
            return
        if child + 1 < size and head_before(
            heap[child + 1], heap[child], state, bucket, pools, seg_rows, seg_starts, costs, labels, taken
        ):
            child += 1
        if not head_before(heap[child], heap[parent], state, bucket, pools, seg_rows, seg_starts, costs, labels, taken):
            return
        heap[parent], heap[child] = heap[child], heap[parent]
        parent = child


@helper
def take(
    kinds, n_kinds, state, need_bucket, pools, seg_rows, seg_starts, seg_sizes, costs, labels, allocatable_of,
    allocatable, taken, missing, row, heap, out, n_out,
):  # fmt: skip
    """Take machines of these kinds until the row is met, the cheapest first; returns the number taken so far.

    A pool is always taken from its head, so what is taken is one count for each pool. `out` may be empty: then the
    machines are only counted. O(kinds + taken × log kinds).
    """
    # The price is the cost for a need that an interruption costs nothing: Idle machines are there already.
    bucket = 0 if state == 0 else need_bucket
    size = 0
    for i in range(n_kinds):
        segment = pools[state, kinds[i]]
        if segment >= 0 and taken[state, kinds[i]] < seg_sizes[segment]:
            heap[size] = kinds[i]
            size += 1
    for parent in range(size // 2 - 1, -1, -1):
        sift_down(heap, parent, size, state, bucket, pools, seg_rows, seg_starts, costs, labels, taken)
    while size > 0 and is_short(missing, row):
        kind = heap[0]
        segment = pools[state, kind]
        if len(out) > 0:
            out[n_out] = seg_rows[seg_starts[segment] + taken[state, kind]]
        n_out += 1
        subtract(missing, row, allocatable, allocatable_of[kind])
        taken[state, kind] += 1
        if taken[state, kind] >= seg_sizes[segment]:
            size -= 1
            heap[0] = heap[size]
        sift_down(heap, 0, size, state, bucket, pools, seg_rows, seg_starts, costs, labels, taken)
    return n_out
