// What the page carries: a description as JSON, and arrays as gzip in base64. Nothing is ever fetched.

import { ownPictures, resampled } from './own_frame'

export type Vec3 = [number, number, number]

/** A lattice in the machine frame: counts and places along x, y, z. */
export interface Lattice {
  shape: Vec3
  spacing: Vec3
  /** The centre of the first voxel, mm. */
  first: Vec3
}

export interface Picture {
  name: string
  title: string
  /** Of which visit, counted from 1, and which breast it is where the scan says so: "L CC", or "". */
  visit: number
  breast: string
  /** Whether it lies in the reference frame; if not, in the frame of its own visit. */
  registered: boolean
  /** Whether it is shown in that frame, on its own lattice, beside the others. */
  own: boolean
  /** Where its own voxels lie, and which of them are inside the breast; of `ownValues`. */
  lattice: Lattice
  inside: Int16Array
  ownValues: Int16Array
  letters: Letters | null
  /** Stored numbers, x fastest; times `slope` they are attenuations. On the page's lattice, unless `own`. */
  values: Int16Array
  /** 1 where its visit has no data; null if it has them everywhere. */
  unseen: Int16Array | null
}

/** What lies at the low and the high end of each machine axis in the patient: letters such as R, A, HL. */
export type Letters = Record<'x' | 'y' | 'z', [string, string]>

export interface Deformation {
  /** The name of the volume that it brought into the reference frame. */
  of: string
  title: string
  lattice: Lattice
  /** Where points of the reference frame were in the prior: x, y, z in mm, then log2 of the volume ratio. */
  fields: [Float32Array, Float32Array, Float32Array, Float32Array]
  /** How sure it is, where that is known. */
  uncertainty: Uncertainty | null
  own: OwnFrame
}

/** The frame of the prior: where its points lie in the reference. */
export interface OwnFrame {
  lattice: Lattice
  /** x, y, z in the reference frame, mm. */
  there: [Float32Array, Float32Array, Float32Array]
  /** Of ellipsoids of a level, xx, yx, yy, zx, zy, zz: about those places, and about `fields` in the prior's frame. */
  level: number
  ellipsoidThere: Float32Array[] | null
  ellipsoidBack: Float32Array[] | null
}

/** Standard deviations of where tissue went, mm; NaN where the data do not determine it. */
export interface Uncertainty {
  lattice: Lattice
  /** Of the length, the root of the sum of all three variances; in the plane, the root of the mean of x and y; in depth. */
  fields: [Float32Array, Float32Array, Float32Array]
}

/** One place where the breast changed. */
export interface Finding {
  number: number
  kind: 'new' | 'gone'
  /** Where, in the machine frame, mm, and how large: a diameter, mm. */
  place: Vec3
  size: number
  z: number
}

/** What changed between the visits, on the lattice of the pictures. */
export interface PageChange {
  /** NaN where nothing is said. */
  scores: Float32Array
  /** Why nothing is said, a key of `reasons`; 0 where something is. */
  silent: Int16Array
  /** Whether the visits could be compared; if not, there are no scores. */
  compared: boolean
  reasons: Record<string, string>
  /** The picture that the reference was compared with. */
  prior: string | null
  /** |z| from which on there is a finding. */
  threshold: number
  /** False findings to expect per breast, by the threshold. */
  thresholds: number[]
  expected: number[]
  findings: Finding[]
}

export interface PageData {
  lattice: Lattice
  slope: number
  unit: string
  pictures: Picture[]
  deformations: Deformation[]
  change: PageChange | null
  reference: string
  prior: string | null
  /** Whether the prior is first shown in its own frame. */
  linked: boolean
  window: [number, number]
  spread: number
  /** Chest wall at 0: the bottom, 1: the left, 2: the top, 3: the right. */
  turn: number
  /** Null where the scan does not say how the breast lies. */
  letters: Letters | null
  /** 1 inside the reference's breast, away from its skin. */
  inside: Int16Array
}

interface DescribedVolume extends Omit<Picture, 'values' | 'unseen' | 'own' | 'lattice' | 'inside' | 'ownValues'> {
  element: string
  unseen: string | null
  lattice: Lattice | null
  inside: string | null
}

interface DescribedOwnFrame {
  level: number
  lattice: Lattice
  there: string
  ellipsoidThere: string | null
  ellipsoidBack: string | null
}

interface Described {
  lattice: Lattice
  slope: number
  unit: string
  volumes: DescribedVolume[]
  deformations: { of: string; title: string; lattice: Lattice; element: string; deviations: string | null; own: DescribedOwnFrame }[]
  change: (Omit<PageChange, 'scores' | 'silent'> & { scores: string; silent: string; step: number; none: number }) | null
  reference: string
  prior: string | null
  linked: boolean
  window: [number, number]
  spread: number
  turn: number
  letters: Letters | null
  inside: string
}

/** The first bytes of a NIfTI-1 file that the page's own writer fills. */
const VOXEL_OFFSET = 108

export async function readPage(): Promise<PageData> {
  const { volumes, deformations, change, inside, ...rest } = JSON.parse(textOf('viewer-data')) as Described
  const pictures: Picture[] = []
  const within = await codes(inside)
  for (const { element, unseen, lattice, inside, ...told } of volumes) {
    const nifti = await unpack(element)
    const start = new DataView(nifti).getFloat32(VOXEL_OFFSET, true)
    const ownValues = new Int16Array(nifti, start)
    pictures.push({
      ...told,
      own: false,
      lattice: lattice ?? rest.lattice,
      inside: inside === null ? within : await codes(inside),
      ownValues,
      values: lattice === null || isSame(lattice, rest.lattice) ? ownValues : resampled(ownValues, lattice, rest.lattice),
      unseen: unseen === null ? null : await codes(unseen)
    })
  }
  pictures.push(...ownPictures(pictures))
  const read: Deformation[] = []
  for (const { of, title, lattice, element, deviations, own } of deformations) {
    const [x, y, z, change] = split(await unpack(element), lattice)
    const uncertainty = deviations === null ? null : uncertaintyOf(split(await unpack(deviations), lattice), lattice)
    read.push({ of, title, lattice, fields: [x, y, z, change], uncertainty, own: await ownFrame(own, lattice) })
  }
  return { ...rest, pictures, deformations: read, change: await changeOf(change), inside: within }
}

function isSame(one: Lattice, other: Lattice): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}

/** back: the lattice of the reference frame, that places of the prior are known on. */
async function ownFrame({ level, lattice, ...elements }: DescribedOwnFrame, back: Lattice): Promise<OwnFrame> {
  const fields = async (id: string | null, on: Lattice): Promise<Float32Array[] | null> => (id === null ? null : split(await unpack(id), on))
  const [x, y, z] = split(await unpack(elements.there), lattice)
  return {
    level,
    lattice,
    there: [x, y, z],
    ellipsoidThere: await fields(elements.ellipsoidThere, lattice),
    ellipsoidBack: await fields(elements.ellipsoidBack, back)
  }
}

async function changeOf(described: Described['change']): Promise<PageChange | null> {
  if (described === null) return null
  const { scores, silent, step, none, ...rest } = described
  const stored = new Int16Array(await unpack(scores))
  return {
    ...rest,
    scores: Float32Array.from(stored, (value) => (value === none ? NaN : value * step)),
    silent: await codes(silent)
  }
}

/** The fields on a lattice, one after the other. */
function split(buffer: ArrayBuffer, { shape }: Lattice): Float32Array[] {
  const all = new Float32Array(buffer)
  const n = shape[0] * shape[1] * shape[2]
  return Array.from({ length: all.length / n }, (_, i) => all.subarray(i * n, (i + 1) * n))
}

function uncertaintyOf([x, y, z]: Float32Array[], lattice: Lattice): Uncertainty {
  const length = x.map((_, i) => Math.hypot(x[i], y[i], z[i]))
  const plane = x.map((_, i) => Math.hypot(x[i], y[i]) / Math.SQRT2)
  return { lattice, fields: [length, plane, z] }
}

function textOf(id: string): string {
  const element = document.getElementById(id)
  if (!element) throw new Error(`The page has no element ${id}.`)
  const text = element.textContent ?? ''
  // Once unpacked the text is of no use, and megabytes of it would stay in memory.
  element.remove()
  return text
}

/** Small numbers, one for each voxel. */
async function codes(id: string): Promise<Int16Array> {
  return Int16Array.from(new Uint8Array(await unpack(id)))
}

async function unpack(id: string): Promise<ArrayBuffer> {
  const binary = atob(textOf(id).trim())
  const bytes = new Uint8Array(binary.length)
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i)
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))
  return await new Response(stream).arrayBuffer()
}
