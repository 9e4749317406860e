// How rulers, regions and landmarks are made: by dragging in a picture, or by keys at the crosshair.

import type { Vec3 } from './data'
import { type Mark, type Pair, nextNumber } from './measure'
import { isPlace } from './own_frame'
import type { Viewer } from './viewer'

/** Of the region that a key puts about the crosshair, mm. */
const RADIUS = 5
/** What is dragged by less is not meant, mm. */
const LEAST = 0.5

/** Begin a mark at a point; the last mark follows until the drag ends. */
export function begin(viewer: Viewer, kind: 'ruler' | 'region', at: Vec3): void {
  const { store } = viewer
  const { marks, view, turn, slab, slabKind } = store.state
  const base = { number: nextNumber(marks, kind), view, turn }
  const mark: Mark =
    kind === 'ruler' ? { ...base, kind, ends: [at, at] } : { ...base, kind, center: at, radii: [0, 0], slab, slabKind }
  store.set({ marks: [...marks, mark] })
}

/** Lead the last mark on to a point. from: where the drag began. */
export function follow(viewer: Viewer, from: Vec3, to: Vec3): void {
  const { store, frame } = viewer
  const mark = store.state.marks.at(-1)
  if (mark?.kind === 'ruler') replaceLast(viewer, { ...mark, ends: [from, to] })
  if (mark?.kind !== 'region') return
  const [a, b] = [frame.toPicture(from), frame.toPicture(to)]
  const middle = frame.toMachine([(a[0] + b[0]) / 2, (a[1] + b[1]) / 2, a[2]])
  replaceLast(viewer, { ...mark, center: middle, radii: [Math.abs(a[0] - b[0]) / 2, Math.abs(a[1] - b[1]) / 2] })
}

/** End the drag; what is hardly larger than a click is taken back. */
export function end({ store }: Viewer): void {
  const mark = store.state.marks.at(-1)
  if (!mark || mark.kind === 'landmark') return
  const size = mark.kind === 'ruler' ? Math.hypot(...mark.ends[0].map((mm, i) => mm - mark.ends[1][i])) : 2 * Math.min(...mark.radii)
  if (size < LEAST) store.set({ marks: store.state.marks.slice(0, -1) })
}

/** A ruler by keys: the first press is its one end, the second the other. */
export function rulerAtCrosshair(viewer: Viewer): void {
  const { marks, point, view, turn } = viewer.store.state
  const open = marks.at(-1)
  const isOpen = open?.kind === 'ruler' && open.ends[0] === open.ends[1] && open.view === view && open.turn === turn
  if (isOpen) follow(viewer, open.ends[0], viewer.frame.onSlice(point, viewer.frame.sliceOf(open.ends[0])))
  else begin(viewer, 'ruler', point)
}

export function regionAtCrosshair(viewer: Viewer): void {
  begin(viewer, 'region', viewer.store.state.point)
  const mark = viewer.store.state.marks.at(-1)
  if (mark?.kind === 'region') replaceLast(viewer, { ...mark, radii: [RADIUS, RADIUS] })
}

/** Mark a point in the first or in the second picture: half of a pair that waits for it, or of a new one. */
export function landmark({ store, second }: Viewer, which: 'first' | 'second', at: Vec3): void {
  const { marks } = store.state
  if ((which === 'second' && !second) || !isPlace(at)) return
  const half = (mark: Pair): Pair =>
    which === 'first' || !second ? { ...mark, first: at } : { ...mark, second: { place: at, name: second.name, registered: second.registered } }
  const waiting = marks.find((one): one is Pair => one.kind === 'landmark' && (one.first === null || one.second === null))
  if (waiting) store.set({ marks: marks.map((mark) => (mark === waiting ? half(waiting) : mark)) })
  else store.set({ marks: [...marks, half({ kind: 'landmark', number: nextNumber(marks, 'landmark'), first: null, second: null })] })
}

export function removeLast({ store }: Viewer): void {
  store.set({ marks: store.state.marks.slice(0, -1) })
}

function replaceLast({ store }: Viewer, mark: Mark): void {
  store.set({ marks: [...store.state.marks.slice(0, -1), mark] })
}
