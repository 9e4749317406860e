// What is at the crosshair, in words: below each picture, and for those who hear the page.

import { NO_DATA } from './arranged'
import type { Vec3 } from './data'
import { sampler } from './field'
import { voxelOf } from './frame'
import { backward } from './measure'
import { ellipsoidBack, ellipsoidThere, isPlace, placeWords } from './own_frame'
import type { Panel } from './panel'
import type { Viewer } from './viewer'

export function readout(viewer: Viewer, panel: Panel, at: Vec3): string {
  const { data, panels } = viewer
  if (viewer.linked.ownOf(panel) && !isPlace(at)) return 'not known: the motion leads nowhere from there'
  const value = panel.valueAt(at) * data.slope
  const sign = panel.role === 'difference' && value > 0 ? '+' : ''
  const many = panels.length > 1
  const sure = panel.role === (many ? 'prior' : 'reference') ? howSure(viewer) : ''
  const changed = panel.role === (many ? 'difference' : 'reference') ? whatChanged(viewer) : ''
  const code = panel.role === 'difference' ? leftOut(viewer, at) : 0
  const more = [inOther(viewer, panel), sure, code === NO_DATA ? noData(viewer) : changed].filter(Boolean).join('; ')
  if (code !== 0) return more ? `not shown\n${more}` : 'not shown'
  const text = `${sign}${value.toFixed(4)} ${data.unit}`
  return more ? `${text}\n${more}` : text
}

/** Where the crosshair's tissue lies in the other visit, under the picture in which the reader points. */
function inOther(viewer: Viewer, panel: Panel): string {
  const deformation = viewer.deformation()
  const { point, ownPoint } = viewer.store.state
  if (!deformation || panel.role !== (ownPoint === null ? 'reference' : 'prior')) return ''
  const { level } = deformation.own
  if (ownPoint !== null) return `in visit ${viewer.first.visit}: ${placeWords(point, ellipsoidThere(deformation, ownPoint), level)}`
  return `in ${deformation.title}: ${placeWords(backward(deformation, point), ellipsoidBack(deformation, point), level)}`
}

/** One sentence for all pictures, and where the crosshair is. */
export function spoken(viewer: Viewer): string {
  const { frame, store, panels } = viewer
  const slice = frame.sliceOf(store.state.point)
  const place = store.state.point.map((mm, axis) => `${'xyz'[axis]} ${mm.toFixed(1)}`).join(', ')
  const values = panels.map((panel) => `${viewer.titleOf(panel)}: ${panel.readout.replaceAll('\n', ', ')}`)
  return `Slice ${slice + 1} of ${frame.shape[2]}, ${place} mm. ${values.join('. ')}.`
}

/** Why the difference is not shown there; 0 where it is. */
function leftOut(viewer: Viewer, at: Vec3): number {
  const hidden = viewer.hidden()
  return hidden === null ? 0 : hidden[voxelOf(viewer.frame.arranged, at)]
}

function noData(viewer: Viewer): string {
  return `visit ${viewer.second?.visit ?? 2} has no data here`
}

/** The score at the crosshair, or why there is none. */
function whatChanged(viewer: Viewer): string {
  const { change, lattice } = viewer.data
  if (!change) return ''
  const voxel = voxelOf(lattice, viewer.store.state.point)
  const z = change.scores[voxel]
  if (Number.isNaN(z)) {
    const why = change.reasons[String(change.silent[voxel])] ?? (change.compared ? '' : 'the visits were not compared')
    return why ? `nothing is said here: ${why}` : 'nothing is said here'
  }
  return `z = ${z > 0 ? '+' : z < 0 ? '\u2212' : ''}${Math.abs(z).toFixed(1)}`
}

/** How sure the motion of the other visit is at the crosshair. */
function howSure(viewer: Viewer): string {
  const deformation = viewer.deformation()
  if (!deformation?.uncertainty || viewer.second?.own || viewer.second?.registered === false) return ''
  const { lattice, fields } = deformation.uncertainty
  const [plane, depth] = [fields[1], fields[2]].map((field) => sampler(lattice, field)(viewer.store.state.point))
  if (Number.isNaN(plane) || Number.isNaN(depth)) return `${deformation.title}: motion not determined here`
  return `${deformation.title}: \u00b1${digits(plane)} mm in plane, ${digits(depth)} mm in depth`
}

/** Two digits, as many as a deviation deserves. */
function digits(mm: number): string {
  return mm < 10 ? String(Number(mm.toPrecision(2))) : mm.toFixed(0)
}
