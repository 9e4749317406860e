// What readers hear who do not see the pictures: the crosshair's values, once it rests.

import { spoken } from './readout'
import type { Viewer } from './viewer'

const REST_MS = 400

export function attachSpeech(viewer: Viewer): HTMLElement {
  const element = document.createElement('p')
  element.className = 'hidden spoken'
  element.setAttribute('role', 'status')
  element.setAttribute('aria-live', 'polite')
  let timer = 0
  viewer.store.onChange((now, before) => {
    const moved = now.point !== before.point || now.view !== before.view || now.slab !== before.slab || now.slabKind !== before.slabKind
    const other = now.first !== before.first || now.second !== before.second
    if (!moved && !other) return
    window.clearTimeout(timer)
    timer = window.setTimeout(() => (element.textContent = spoken(viewer)), REST_MS)
  })
  return element
}
