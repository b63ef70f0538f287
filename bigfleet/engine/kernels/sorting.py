"""Orders: ids by their bytes, and the segments of the index by theirs."""

from bigfleet.engine.kernels.jit import helper, kernel

__all__ = ["merge_segments", "sort_by_text"]


@helper
def text_before(a, b, offsets, lengths, arena):
    """Whether the text of row a sorts before that of row b."""
    start_a, start_b = offsets[a], offsets[b]
    shorter = min(lengths[a], lengths[b])
    for i in range(shorter):
        byte_a, byte_b = arena[start_a + i], arena[start_b + i]
        if byte_a != byte_b:
            return byte_a < byte_b
    return lengths[a] < lengths[b]


@kernel("void(int32[::1], int32[::1], uint32[::1], uint32[::1], uint8[::1])")
def sort_by_text(rows, spare, offsets, lengths, arena):
    """Sort rows by their texts, in place. A merge sort: O(n log n) comparisons."""
    count = len(rows)
    width = 1
    while width < count:
        for low in range(0, count, 2 * width):
            middle = min(low + width, count)
            high = min(low + 2 * width, count)
            left, right = low, middle
            for place in range(low, high):
                if right >= high or (
                    left < middle and not text_before(rows[right], rows[left], offsets, lengths, arena)
                ):
                    spare[place] = rows[left]
                    left += 1
                else:
                    spare[place] = rows[right]
                    right += 1
        rows[:] = spare
        width *= 2


@helper
def copy_owner(target, to, source, place):
    """Profile and group."""
    target[to, 0] = source[place, 0]
    target[to, 1] = source[place, 1]


@helper
def row_before(a, b, bucket, by_penalty, kind_of, labels, costs, terms, reclamations):
    """Whether machine a comes before b in a segment's order: cost, then dearest to reclaim, then id."""
    if bucket >= 0:
        cost_a, cost_b = costs[bucket, kind_of[a]], costs[bucket, kind_of[b]]
        if cost_a != cost_b:
            return cost_a < cost_b
    if by_penalty:
        penalty_a, penalty_b = reclamations[terms[a]], reclamations[terms[b]]
        if penalty_a != penalty_b:
            return penalty_a > penalty_b
    return labels[a] < labels[b]


@helper
def sort_rows(rows, low, high, bucket, by_penalty, kind_of, labels, costs, terms, reclamations):
    """Heap sort of rows[low:high] in a segment's order."""
    count = high - low
    for first in range(count // 2 - 1, -count, -1):
        # First build the heap, then take the last out of it again and again.
        if first < 0:
            end = count + first
            rows[low], rows[low + end] = rows[low + end], rows[low]
            parent = 0
        else:
            end = count
            parent = first
        while True:
            child = 2 * parent + 1
            if child >= end:
                break
            if child + 1 < end and row_before(
                rows[low + child],
                rows[low + child + 1],
                bucket,
                by_penalty,
                kind_of,
                labels,
                costs,
                terms,
                reclamations,
            ):
                child += 1
            if not row_before(
                rows[low + parent], rows[low + child], bucket, by_penalty, kind_of, labels, costs, terms, reclamations
            ):
                break
            rows[low + parent], rows[low + child] = rows[low + child], rows[low + parent]
            parent = child


@kernel(
    "int64(int32[::1], int64[::1], int32[::1], int32[::1], int32[::1], int32[:, ::1], int64[::1], int32[::1],"
    " int32[::1], int64, int32[::1], uint8[::1], int32[::1], int32[:, ::1], int64[::1], float64[:, ::1], int32[::1],"
    " uint8[::1], int32[::1], float64[::1])"
)
def merge_segments(
    touched, add_starts, adds, seg_rows, seg_kinds, seg_owners, starts, sizes, rooms, end,
    home, pending, kind_of, owner_of, labels, costs, buckets, by_penalty, terms, reclamations,
):  # fmt: skip
    """Bring the touched segments up to date; returns the new end of the store.

    `adds` are sorted by segment, then id. O(size of each touched segment + new rows × log new rows).
    """
    for t in range(len(touched)):
        segment = touched[t]
        bucket, penalty = buckets[segment], by_penalty[segment]
        start, live = starts[segment], 0
        for i in range(start, start + sizes[segment]):
            row = seg_rows[i]
            if home[row] == segment and pending[row] == 0:
                seg_rows[start + live] = row
                seg_kinds[start + live] = seg_kinds[i]
                copy_owner(seg_owners, start + live, seg_owners, i)
                live += 1
        first = add_starts[t]
        count = add_starts[t + 1] - first
        in_order = True
        for i in range(first + 1, first + count):
            if row_before(adds[i], adds[i - 1], bucket, penalty, kind_of, labels, costs, terms, reclamations):
                in_order = False
                break
        if not in_order:
            sort_rows(adds, first, first + count, bucket, penalty, kind_of, labels, costs, terms, reclamations)
        total = live + count
        if total > rooms[segment]:
            for i in range(live):
                seg_rows[end + i] = seg_rows[start + i]
                seg_kinds[end + i] = seg_kinds[start + i]
                copy_owner(seg_owners, end + i, seg_owners, start + i)
            start = starts[segment] = end
            rooms[segment] = total + total // 4 + 2
            end += rooms[segment]
        # Merge from the back, so that nothing is overwritten before it is read.
        old, new, place = start + live - 1, first + count - 1, start + total - 1
        while new >= first:
            if old >= start and row_before(
                adds[new], seg_rows[old], bucket, penalty, kind_of, labels, costs, terms, reclamations
            ):
                seg_rows[place] = seg_rows[old]
                seg_kinds[place] = seg_kinds[old]
                copy_owner(seg_owners, place, seg_owners, old)
                old -= 1
            else:
                seg_rows[place] = adds[new]
                seg_kinds[place] = kind_of[adds[new]]
                copy_owner(seg_owners, place, owner_of, adds[new])
                new -= 1
            place -= 1
        sizes[segment] = total
    for i in range(len(adds)):
        pending[adds[i]] = 0
    return end
