// The mouse over a picture: point, scroll, window, move, zoom.

import type { Panel } from './panel'
import type { Viewer } from './viewer'

type Act = 'point' | 'window' | 'move'

export function listen(viewer: Viewer, panel: Panel): void {
  const { store } = viewer
  const { over, view } = panel
  let act: Act | null = null
  let last: [number, number] = [0, 0]
  let turned = 0

  const onCanvas = (event: MouseEvent): [number, number] => {
    const box = over.getBoundingClientRect()
    return [((event.clientX - box.left) * over.width) / box.width, ((event.clientY - box.top) * over.height) / box.height]
  }
  const point = (at: [number, number]): void => {
    const { state } = store
    const eye = viewer.frame.toPicture(state.point)[2]
    store.set({ point: viewer.frame.inside(viewer.frame.toMachine([...view.toPicture(...at), eye])) })
  }

  over.addEventListener('pointerdown', (event) => {
    event.preventDefault()
    if (document.activeElement instanceof HTMLElement) document.activeElement.blur()
    over.setPointerCapture(event.pointerId)
    last = onCanvas(event)
    if (event.button === 2) act = 'window'
    else if (event.button === 1 || event.shiftKey) act = 'move'
    else act = store.state.drag
    if (act === 'point') point(last)
  })
  over.addEventListener('pointermove', (event) => {
    if (act === null) return
    const at = onCanvas(event)
    const [dx, dy] = [(at[0] - last[0]) / devicePixelRatio, (at[1] - last[1]) / devicePixelRatio]
    if (act === 'point') point(at)
    else if (act === 'move') {
      const { middle } = store.state
      store.set({ middle: [middle[0] - (at[0] - last[0]) / view.pixelsPerMm, middle[1] + (at[1] - last[1]) / view.pixelsPerMm] })
    } else changeWindow(viewer, panel, dx, dy)
    last = at
  })
  for (const name of ['pointerup', 'pointercancel'] as const) {
    over.addEventListener(name, () => (act = null))
  }
  over.addEventListener('contextmenu', (event) => event.preventDefault())
  over.addEventListener('dblclick', () => {
    store.set({ alone: store.state.alone === null ? viewer.panels.indexOf(panel) : null })
  })
  over.addEventListener(
    'wheel',
    (event) => {
      event.preventDefault()
      if (event.ctrlKey) {
        zoomAbout(viewer, view.toPicture(...onCanvas(event)), event.deltaY < 0 ? 1.15 : 1 / 1.15)
        return
      }
      // A wheel turns by 100 and more at a time, a trackpad by little; slices come one by one.
      turned += Math.abs(event.deltaY) >= 50 ? Math.sign(event.deltaY) : event.deltaY / 50
      const slices = Math.trunc(turned)
      turned -= slices
      if (slices !== 0) viewer.scroll(slices)
    },
    { passive: false }
  )
}

/** To the right widens the window, downwards raises its level and so darkens the picture. */
export function changeWindow(viewer: Viewer, panel: Panel | null, dx: number, dy: number): void {
  const { store, data } = viewer
  const { low, high, spread } = store.state
  if (panel?.role === 'difference') {
    store.set({ spread: Math.max(data.slope, spread * Math.exp(dx / 150)) })
    return
  }
  const width = Math.max(4 * data.slope, (high - low) * Math.exp(dx / 150))
  const level = (high + low) / 2 + (dy * (data.window[1] - data.window[0])) / 300
  store.set({ low: level - width / 2, high: level + width / 2 })
}

/** Zoom, and leave what is at a place of the picture where it is. */
export function zoomAbout(viewer: Viewer, about: [number, number], factor: number): void {
  const { zoom, middle } = viewer.store.state
  const next = Math.min(20, Math.max(1, zoom * factor))
  const share = zoom / next
  const moved: [number, number] = [about[0] + (middle[0] - about[0]) * share, about[1] + (middle[1] - about[1]) * share]
  viewer.store.set({ zoom: next, middle: next === 1 ? [0, 0] : moved })
}
