// What was measured, as a list in the page's text, to read, remove and export.

import type { Deformation, Vec3 } from './data'
import { type Mark, type Pair, apart, areaOf, backward, distance } from './measure'
import { asCsv, asJson, regionStatistics } from './measure_export'
import { ellipsoidBack, isWithin } from './own_frame'
import { download } from './save'
import type { State } from './state'
import type { Viewer } from './viewer'

export function attachMeasures(viewer: Viewer, text: HTMLElement): void {
  const { store } = viewer
  const section = document.createElement('section')
  section.className = 'measures'
  section.hidden = true
  const heading = document.createElement('h2')
  heading.textContent = 'Measured'
  const list = document.createElement('ol')
  const buttons = document.createElement('p')
  buttons.append(
    button('CSV', 'Save as CSV', () => download(new Blob([asCsv(viewer)], { type: 'text/csv' }), 'measurements.csv')),
    button('JSON', 'Save as JSON', () => download(new Blob([asJson(viewer)], { type: 'application/json' }), 'measurements.json')),
    button('Remove all', 'Remove all measurements', () => store.set({ marks: [] }))
  )
  section.append(heading, list, buttons)
  // Above all other text: it is what the reader works on.
  text.prepend(section)
  const refresh = (now: State, before?: State): void => {
    if (before && now.marks === before.marks && now.first === before.first && now.second === before.second) return
    section.hidden = now.marks.length === 0
    list.replaceChildren(...now.marks.map((mark) => item(viewer, mark)))
  }
  store.onChange(refresh)
  refresh(store.state)
}

function item(viewer: Viewer, mark: Mark): HTMLElement {
  const { store } = viewer
  const row = document.createElement('li')
  const words = document.createElement('span')
  words.textContent = told(viewer, mark)
  const name = `${mark.kind} ${mark.number}`
  const remove = button('\u00d7', `Remove ${name}`, () => {
    // Those who go by Tab are not left nowhere.
    const next = row.nextElementSibling ?? row.previousElementSibling
    const at = [...(row.parentElement?.children ?? [])].indexOf(next ?? row)
    const list = row.parentElement
    store.set({ marks: store.state.marks.filter((one) => one !== mark) })
    list?.children[Math.min(at, list.children.length - 1)]?.querySelector('button')?.focus()
  })
  row.append(words, remove)
  return row
}

function told(viewer: Viewer, mark: Mark): string {
  if (mark.kind === 'ruler') return `Ruler ${mark.number}: ${apart(mark.ends[0], mark.ends[1]).toFixed(1)} mm`
  if (mark.kind === 'region') {
    const rows = regionStatistics(viewer, mark).map(({ picture, mean, sd }) =>
      Number.isNaN(mean) ? `${picture}: no data` : `${picture}: mean ${mean.toFixed(4)}, sd ${Number.isNaN(sd) ? 'not known' : sd.toFixed(4)} ${viewer.data.unit}`
    )
    return `Region ${mark.number}: ${areaOf(mark).toFixed(1)} mm\u00b2. ${rows.join('; ')}`
  }
  if (!mark.first || !mark.second) return `Landmark ${mark.number}: mark it in the ${mark.first ? 'other' : 'first'} visit too`
  const { after, before } = distance(mark, viewer.deformation())
  return `Landmark ${mark.number}: ${after.toFixed(1)} mm apart after registration, ${before.toFixed(1)} mm before${matched(mark, viewer.deformation())}`
}

/** Whether a pair may be one tissue: whether its second point lies in the ellipsoid about the place of its first. */
function matched({ first, second }: Pair, deformation: Deformation | undefined): string {
  const matrix = deformation && first && ellipsoidBack(deformation, first)
  if (!matrix || !first || !second) return ''
  const own = second.registered ? backward(deformation, second.place) : second.place
  const place = backward(deformation, first)
  const inside = isWithin(matrix, own.map((mm, axis) => mm - place[axis]) as Vec3)
  return `; ${inside ? 'inside' : 'outside'} the ellipsoid of ${Math.round(100 * deformation.own.level)} %`
}

function button(text: string, label: string, act: () => void): HTMLButtonElement {
  const made = document.createElement('button')
  made.type = 'button'
  made.textContent = text
  if (label !== text) made.setAttribute('aria-label', label)
  made.addEventListener('click', act)
  return made
}
