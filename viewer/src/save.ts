// Files that a reader takes away: they are made in the page, and nothing is sent anywhere.

import { shownAlone } from './state'
import type { Viewer } from './viewer'

const CAPTION = 22
const GAP = 2
const MARGIN = 6

export function download(content: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(content)
  link.download = name
  link.click()
  // The browser may not have begun to read.
  window.setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}

/** Save the pictures as they are shown, with all that is drawn over them, what they are and what they are for. */
export function savePicture(viewer: Viewer): void {
  const canvas = pictureOf(viewer)
  canvas.toBlob((blob) => blob && download(blob, 'duotomo.png'), 'image/png')
}

export function pictureOf(viewer: Viewer): HTMLCanvasElement {
  const alone = shownAlone(viewer.store.state)
  const panels = viewer.panels.filter((_, i) => alone === null || alone === i)
  if (viewer.store.state.swapped && alone === null) panels.splice(0, 2, panels[1], panels[0])
  const dot = devicePixelRatio
  const caption = CAPTION * dot
  const across = !viewer.element.classList.contains('stacked') || panels.length === 1
  const sizes = panels.map(({ over }) => [over.width, over.height + 2 * caption])
  const total = (side: 0 | 1, along: boolean): number => {
    const lengths = sizes.map((size) => size[side])
    return along ? lengths.reduce((a, b) => a + b + GAP) : Math.max(...lengths)
  }
  const canvas = document.createElement('canvas')
  canvas.width = total(0, across)
  canvas.height = total(1, !across) + caption
  const pen = canvas.getContext('2d')
  if (!pen) return canvas
  pen.fillStyle = '#000000'
  pen.fillRect(0, 0, canvas.width, canvas.height)
  pen.textBaseline = 'middle'
  let [x, y] = [0, 0]
  panels.forEach((panel, i) => {
    const [width, height] = sizes[i]
    const say = (text: string, top: number, weight = ''): void => {
      pen.font = `${weight}${12 * dot}px system-ui, sans-serif`
      pen.fillText(text, x + MARGIN * dot, top + caption / 2, width - 2 * MARGIN * dot)
    }
    pen.fillStyle = '#eef2f5'
    say(viewer.titleOf(panel), y, 'bold ')
    panel.drawTo(pen, x, y + caption)
    say(panel.readout.replaceAll('\n', '; '), y + height - caption)
    if (across) x += width + GAP
    else y += height + GAP
  })
  const { state } = viewer.store
  const { frame } = viewer
  const slice = `slice ${frame.sliceOf(state.point) + 1} of ${frame.shape[2]}, ${viewer.slabWords()}`
  pen.fillStyle = '#ffb27a'
  pen.font = `${12 * dot}px system-ui, sans-serif`
  pen.fillText(`${RESEARCH()} ${slice}`, MARGIN * dot, canvas.height - caption / 2, canvas.width - 2 * MARGIN * dot)
  return canvas
}

/** The words at the foot of the page. */
const RESEARCH = (): string => document.querySelector('body > footer')?.textContent ?? ''
