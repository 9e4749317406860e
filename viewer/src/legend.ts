// What the colours over the pictures mean, and what is left out.

import { GONE, HATCH_COLOUR, NEW } from './change'
import { GRID_COLOUR, LARGER, SMALLER, UNDETERMINED, UNSURE, deviationOf, gridSpacing, ratioOf } from './overlay'
import type { Viewer } from './viewer'
import type { Widgets } from './widgets'

export function legend(viewer: Viewer, widgets: Widgets): HTMLElement {
  const element = document.createElement('p')
  element.className = 'legend'
  widgets.follow((state) => {
    element.replaceChildren()
    const { change } = viewer.data
    if (change && state.scores) {
      const from = state.threshold.toFixed(1)
      element.append(swatch(`rgb(${NEW.join()})`), `new, line: z = ${from}`)
      element.append(swatch(`rgb(${GONE.join()})`), `gone, dashes: z = \u2212${from}`)
    }
    const { compared } = viewer.linked
    const gaps = compared?.unseen ? `visit ${compared.visit} has no data` : ''
    if (change && (state.scores || state.masked)) element.append(swatch(HATCH_COLOUR, 'hatched'), `hatched: nothing is said${gaps ? `, or ${gaps}` : ''}`)
    else if (gaps && state.masked) element.append(swatch(HATCH_COLOUR, 'hatched'), `hatched: ${gaps}`)
    const deformation = viewer.deformation()
    if (!deformation) return
    if (state.grid) {
      const apart = gridSpacing(viewer.frame)
      element.append(swatch(GRID_COLOUR), `lines that are straight in ${deformation.title}, ${apart} mm apart`)
    }
    if (state.jacobian) {
      const ratio = ratioOf(deformation)
      const [less, more] = [Math.round(100 * (1 - 1 / ratio)), Math.round(100 * (ratio - 1))]
      element.append(swatch(`rgb(${SMALLER.join()})`), `tissue has ${less} % less volume than in ${deformation.title}`)
      element.append(swatch(`rgb(${LARGER.join()})`), `${more} % more`)
    }
    if (state.uncertainty && deformation.uncertainty) {
      const most = deviationOf(deformation.uncertainty)
      element.append(swatch(`rgb(${UNSURE.join()})`), `motion of ${deformation.title} off by ${most} mm or more (standard deviation), paler: by less`)
      element.append(swatch(`rgb(${UNDETERMINED.join()})`), 'not determined')
    }
  })
  return element
}

function swatch(colour: string, kind = ''): HTMLElement {
  const box = document.createElement('i')
  box.className = kind
  if (kind) box.style.color = colour
  else box.style.backgroundColor = colour
  return box
}
