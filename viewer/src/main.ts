// The page's viewer, put into the element #viewer once the volumes are unpacked.

import { Controls } from './controls'
import { readPage } from './data'
import { attachFindings } from './findings'
import { watchFocus } from './focus'
import { helpDialog, keyTable, listenToKeys } from './keys'
import { attachMeasures } from './measure_list'
import { watchWidth } from './narrow'
import { listen } from './pointer'
import { attachSpeech } from './speech'
import './style.css'
import { Viewer } from './viewer'

const BLINK_MS = 500

async function main(place: HTMLElement): Promise<void> {
  const viewer = new Viewer(await readPage())
  const { store } = viewer
  watchFocus()
  watchWidth(viewer)
  const toggleHelp = (): void => (help.open ? help.close() : help.showModal())
  const toggleText = (): void => void document.body.classList.toggle('no-text')
  const table = keyTable(viewer, toggleHelp, toggleText)
  const help = helpDialog(table)
  const controls = new Controls(viewer, toggleHelp, toggleText)
  place.replaceChildren(controls.element, viewer.element, attachSpeech(viewer), help)
  await viewer.attach()
  controls.refresh()
  for (const panel of viewer.panels) listen(viewer, panel)
  listenToKeys(table, help)
  attachFindings(viewer, document)
  const text = document.getElementById('text')
  if (text) attachMeasures(viewer, text)

  let timer = 0
  store.onChange((now, before) => {
    if (now.blinking === before.blinking) return
    window.clearInterval(timer)
    if (now.blinking) timer = window.setInterval(() => viewer.blink(), BLINK_MS)
  })
  place.dataset.ready = 'true'
}

const place = document.getElementById('viewer')
if (place) {
  main(place).catch((error: unknown) => {
    console.error(error)
    const words = document.createElement('p')
    words.className = 'failed'
    const why = error instanceof Error ? error.message : String(error)
    words.textContent = `The pictures cannot be drawn here: ${why} The viewer needs WebGL 2, as Firefox, Chrome, Edge and Safari have it.`
    place.replaceChildren(words)
  })
}
