// Fingers on a picture: a tap points, up and down goes through the slices, sideways to the next picture; two fingers
// zoom and move.

import { stepPicture } from './narrow'
import type { Panel } from './panel'
import { machineAt, moveBy, onCanvas, zoomAbout } from './pointer'
import type { Viewer } from './viewer'

/** Pixels that a finger moves before it is no tap, for each slice, and to the next picture. */
const STILL = 8
const SLICE = 14
const SWIPE = 50

type Place = [number, number]

/** Returns the fingers that are down, by pointer. */
export function listenToTouch(viewer: Viewer, panel: Panel): ReadonlyMap<number, Place> {
  const { over, view } = panel
  const { store } = viewer
  const fingers = new Map<number, Place>()
  let start: Place = [0, 0]
  /** What the one finger does, once it is clear. */
  let way: 'tap' | 'slices' | 'picture' | 'none' = 'none'
  let passed = 0

  over.addEventListener('pointerdown', (event) => {
    if (event.pointerType !== 'touch') return
    fingers.set(event.pointerId, [event.clientX, event.clientY])
    start = [event.clientX, event.clientY]
    way = fingers.size === 1 && store.state.tool === 'point' ? 'tap' : 'none'
    passed = 0
  })
  over.addEventListener('pointermove', (event) => {
    const before = fingers.get(event.pointerId)
    if (!before) return
    const [dx, dy] = [event.clientX - start[0], event.clientY - start[1]]
    if (way === 'tap' && Math.hypot(dx, dy) > STILL) way = Math.abs(dx) > Math.abs(dy) ? 'picture' : 'slices'
    if (way === 'slices') {
      const slices = Math.trunc(dy / SLICE)
      if (slices !== passed) viewer.scroll(slices - passed, panel)
      passed = slices
    }
    const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1]
    if (other) pinch(other, before, [event.clientX, event.clientY])
    fingers.set(event.pointerId, [event.clientX, event.clientY])
  })
  over.addEventListener('pointerup', (event) => {
    const at = fingers.get(event.pointerId)
    if (!at) return
    fingers.delete(event.pointerId)
    const dx = at[0] - start[0]
    if (way === 'tap') viewer.linked.pointIn(panel, machineAt(viewer, panel, onCanvas(over, at)))
    if (way === 'picture' && Math.abs(dx) >= SWIPE) stepPicture(viewer, dx < 0 ? 1 : -1)
    way = 'none'
  })
  over.addEventListener('pointercancel', (event) => {
    fingers.delete(event.pointerId)
    way = 'none'
  })

  const pinch = (still: Place, from: Place, to: Place): void => {
    const [was, is] = [from, to].map((place) => Math.hypot(place[0] - still[0], place[1] - still[1]))
    zoomAbout(viewer, view.toPicture(...onCanvas(over, to)), is / Math.max(was, 1))
    const scale = over.width / over.getBoundingClientRect().width / 2
    moveBy(viewer, panel, (to[0] - from[0]) * scale, (to[1] - from[1]) * scale)
  }
  return fingers
}
