// What was measured, for other programs. Nothing of the patient is in the page, and so nothing is in here.

import type { Vec3 } from './data'
import { type Mark, type Region, type Statistics, apart, areaOf, distance, statistics } from './measure'
import type { Viewer } from './viewer'

/** Of the pictures that are shown, and of their difference. */
export function regionStatistics({ data, first, linked }: Viewer, region: Region): Statistics[] {
  const second = linked.compared
  const found = [statistics(data, region, first.title, first)]
  if (second) {
    found.push(statistics(data, region, second.title, second))
    found.push(statistics(data, region, 'difference', first, second))
  }
  return found
}

export function asJson(viewer: Viewer): string {
  const measurements = viewer.store.state.marks.map((mark) => described(viewer, mark))
  return `${JSON.stringify({ format: 'duotomo measurements', version: 1, unit: viewer.data.unit, frame: 'machine, x y z in mm', measurements }, null, 1)}\n`
}

const COLUMNS = ['kind', 'number', 'picture', 'x_mm', 'y_mm', 'z_mm', 'x2_mm', 'y2_mm', 'z2_mm', 'length_mm', 'area_mm2', 'n', 'mean', 'sd', 'distance_mm', 'distance_before_mm'] as const

type Row = Partial<Record<(typeof COLUMNS)[number], string | number>>

export function asCsv(viewer: Viewer): string {
  const rows = viewer.store.state.marks.flatMap((mark) => rowsOf(viewer, mark))
  const lines = rows.map((row) => COLUMNS.map((column) => quoted(row[column])).join(','))
  return [COLUMNS.join(','), ...lines].map((line) => `${line}\r\n`).join('')
}

function described(viewer: Viewer, mark: Mark): object {
  if (mark.kind === 'ruler') return { kind: mark.kind, number: mark.number, view: mark.view, ends_mm: mark.ends, length_mm: apart(mark.ends[0], mark.ends[1]) }
  if (mark.kind === 'region') {
    const { kind, number, view, center, radii, slab, slabKind } = mark
    const thickness = slab === Infinity ? 'whole' : slab
    return { kind, number, view, center_mm: center, radii_mm: radii, area_mm2: areaOf(mark), slab_mm: thickness, slab: slabKind, statistics: regionStatistics(viewer, mark).map(finite) }
  }
  const { after, before } = distance(mark, viewer.deformation())
  const second = mark.second && { picture: viewer.picture(mark.second.name).title, registered: mark.second.registered, place_mm: mark.second.place }
  return { kind: mark.kind, number: mark.number, first_mm: mark.first, second, ...finite({ distance_mm: after, distance_before_mm: before }) }
}

function rowsOf(viewer: Viewer, mark: Mark): Row[] {
  const base: Row = { kind: mark.kind, number: mark.number }
  if (mark.kind === 'ruler') return [{ ...base, ...place(mark.ends[0]), ...place(mark.ends[1], '2'), length_mm: apart(mark.ends[0], mark.ends[1]) }]
  if (mark.kind === 'region') {
    return regionStatistics(viewer, mark).map((found) => ({ ...base, ...place(mark.center), area_mm2: areaOf(mark), ...found }))
  }
  const { after, before } = distance(mark, viewer.deformation())
  const picture = mark.second ? viewer.picture(mark.second.name).title : ''
  return [{ ...base, picture, ...place(mark.first), ...place(mark.second?.place ?? null, '2'), distance_mm: after, distance_before_mm: before }]
}

function place(mm: Vec3 | null, which: '' | '2' = ''): Row {
  return mm ? { [`x${which}_mm`]: mm[0], [`y${which}_mm`]: mm[1], [`z${which}_mm`]: mm[2] } : {}
}

/** JSON has no NaN. */
function finite<T extends object>(row: T): object {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, typeof value === 'number' && !Number.isFinite(value) ? null : value]))
}

function quoted(value: string | number | undefined): string {
  if (value === undefined || (typeof value === 'number' && Number.isNaN(value))) return ''
  if (typeof value === 'number') return String(Number(value.toPrecision(8)))
  return /[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value
}
