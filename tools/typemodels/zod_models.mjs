// Random zod schemas, as programs write them, and their JSON schemas.
//
//     node zod_models.mjs schemas          JSON lines: id, features, the schema
//     node zod_models.mjs source NUMBER    the JavaScript source of one schema
//     node zod_models.mjs read FILE        reads JSON lines (id, text) back with the schemas
//
// A model is made from its number alone, so the schemas that are committed and the models that
// read texts back are the same. See README.md.
import { readFileSync } from 'node:fs'
import { zodResponseFormat } from 'openai/helpers/zod'
import * as zod4 from 'zod'
import * as zod3 from 'zod/v3'

const MODELS = 520
// The models from EXACT on have parts that check more than their schema says.
const EXACT = 460

// How the schema of a model is made, by its number: with zod's own function mostly, and else as
// OpenAI's SDK sends it. That has its own rules for zod 3: no optional properties, and nothing
// with names that are not known.
const sender = number => ['zod', 'zod', 'openai', 'zod', 'openai zod 3'][number % 5]

const NAMES = `account address age amount author balance body brand budget category city code color comment company
count country created currency customer deadline description discount due duration email end enabled expires flags
groups height host icon items key label language latitude level limit link location longitude manager members
message mode name notes number order owner page parts payload percent phone place position price priority product
quantity rating reason reference region result role score section seller size source start state status steps street
summary tags target team tier title token total updated user value variant vendor version weight width window zone
@id $ref the-value größe`.split(/\s+/)

const WORDS = 'alpha beta gamma delta north south east west open closed draft final small medium large red green blue'.split(' ')

// JSON Schema has no flags. Its patterns are meant with the flag u, without which a . is half of
// an emoji.
const PATTERNS = [
  '/^[a-z]{2,8}$/', '/^[A-Z]{3}-\\d{4}$/', '/^\\d{5}(-\\d{4})?$/', '/^\\+[1-9]\\d{6,14}$/', '/^[^\\s@]+@[^\\s@]+$/', '/^#[0-9a-f]{6}$/',
  '/^v\\d+\\.\\d+\\.\\d+$/', '/^\\S+$/', '/^[\\w.-]+$/', '/^(foo|bar)_[a-z]+$/', '/^[^\\/]+$/', '/[0-9]$/', '/^[a-z0-9]+(?:-[a-z0-9]+)*$/',
  '/^(?:mon|tue|wed|thu|fri|sat|sun)$/', '/^.{1,20}$/u', '/\\S/', '/^[A-Za-z_$][\\w$]*$/', '/^\\D*$/', '/^[0-9a-f]{32}$/',
]
const KEY_PATTERNS = ['/^[a-z]+$/', '/^x-[a-z0-9-]+$/', '/^k\\d+$/', '/^[A-Z]{2}$/', '/^[a-z][a-z0-9_]{0,30}$/', '/^\\d{4}$/', '/_id$/']

// The same numbers as in pydantic_models.py.
class Random {
  constructor(seed) {
    this.state = (Math.imul(seed, 0x85ebca6b) + 12345) >>> 0
  }
  below(n) {
    this.state = (this.state + 0x9e3779b9) >>> 0
    let z = this.state
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad) >>> 0
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97) >>> 0
    return ((z ^ (z >>> 15)) >>> 0) % n
  }
  one(n) {
    return this.below(n) === 0
  }
  pick(values) {
    return values[this.below(values.length)]
  }
  some(values, least, most) {
    values = [...values]
    const count = least + this.below(Math.min(most, values.length) - least + 1)
    return Array.from({ length: count }, () => values.splice(this.below(values.length), 1)[0])
  }
}

const quote = v => JSON.stringify(v)

// The source of one random model, the body of a function of z that returns it.
class Model {
  constructor(number) {
    this.number = number
    this.rng = new Random(number + 100000)
    this.sent = sender(number)
    this.old = this.sent === 'openai zod 3'
    this.strict = this.sent !== 'zod'
    this.statements = []
    this.count = 0
    this.features = new Set()
    this.less = new Set() // what the model checks beyond its schema
  }

  write() {
    const n = this.number
    const features = this.kinds(3)
    let must = [features[n % features.length], features[(n * 7 + 3) % features.length]]
    if (n >= EXACT) must = ['less', 'less']
    const root = this.object(3, { must })
    return [...this.statements, `return ${root}`].join('\n') + '\n'
  }

  name() {
    return `m${++this.count}`
  }

  kinds(depth) {
    const scalars = Object.keys(SCALARS)
    let containers = depth > 0 ? Object.keys(CONTAINERS) : []
    if (this.strict) containers = containers.filter(k => !['optional', 'record', 'recordPattern', 'tuple', 'loose', 'any', 'intersection'].includes(k))
    if (this.old) containers = containers.filter(k => k !== 'templateLiteral')
    return [...scalars, ...containers]
  }

  type(depth) {
    return this.of(this.rng.pick(this.kinds(depth)), depth)
  }

  of(kind, depth) {
    if (kind === 'less') return this.lessType()
    this.features.add(kind)
    return (SCALARS[kind] ?? CONTAINERS[kind])(this, depth)
  }

  lessType() {
    const kinds = Object.keys(LESS).filter(k => !this.old || LESS[k][1])
    const kind = this.rng.pick(kinds)
    this.less.add(kind)
    this.features.add('less:' + kind)
    return LESS[kind][this.old ? 1 : 0]
  }

  // object declares an object and returns its name. tag is a property that tells it from others.
  object(depth, { must = [], tag = null, own = null, fewest = 1 } = {}) {
    const r = this.rng
    const name = own?.name ?? this.name()
    const names = r.some(NAMES, Math.max(fewest, must.length), Math.max(4, 3 * must.length))
    const lines = tag ? [tag] : []
    names.forEach((n, i) => {
      let t = i < must.length ? this.of(must[i], depth) : this.type(depth)
      if (r.one(8)) t += `.describe(${quote('The ' + r.pick(WORDS) + ' one.')})`
      if (r.one(12) && !this.old) {
        this.features.add('default')
        t = `${t}.nullable()` + (this.strict ? '' : '.default(null)')
      }
      lines.push(`${quote(n)}: ${t}`)
    })
    if (own) lines.push(own.line)
    const kind = this.old || this.strict ? 'object' : r.pick(['object', 'object', 'object', 'strictObject'])
    this.statements.push(`const ${name} = z.${kind}({\n${lines.map(l => `  ${l},\n`).join('')}})`)
    return name
  }

  discriminated(depth) {
    const r = this.rng
    const tag = r.pick(['kind', 'type', 'event'])
    const names = r.some(WORDS, 2, 4).map(w => this.object(depth - 1, { tag: `${tag}: z.literal(${quote(w)})`, fewest: 0 }))
    const union = `z.discriminatedUnion(${quote(tag)}, [${names.join(', ')}])`
    return r.one(3) ? `z.array(${union})` : union
  }

  recursion(depth) {
    const r = this.rng
    const name = this.name()
    const link = r.pick(this.strict ? [`z.array(${name})`, `${name}.nullable()`] : [`z.array(${name})`, `${name}.optional()`, `z.record(z.string(), ${name})`, `${name}.nullish()`])
    const line = this.old ? `children: z.lazy(() => ${link})` : `get children() { return ${link} }`
    return this.object(depth - 1, { own: { name, line } })
  }
}

// Types, by the names of their features: functions of the model and the depth that is left.
const SCALARS = {
  string: () => 'z.string()',
  number: m => m.rng.pick(['z.number()', 'z.float64()'].slice(0, m.old ? 1 : 2)),
  boolean: () => 'z.boolean()',
  int: m => (m.old ? 'z.number().int()' : m.rng.pick(['z.int()', 'z.number().int()', 'z.int32()', 'z.uint32()'])),
  url: m => (m.old ? 'z.string().url()' : m.rng.pick(['z.url()', 'z.string().url()'])),
  email: m => (m.old ? 'z.string().email()' : m.rng.pick(['z.email()', 'z.string().email()', 'z.email().max(40)'])),
  datetime: m =>
    m.old ? 'z.string().datetime({ offset: true })' : m.rng.pick(['z.iso.datetime()', 'z.iso.datetime({ offset: true })', 'z.iso.datetime({ precision: 3 })']),
  date: m => (m.old ? 'z.string().date()' : 'z.iso.date()'),
  time: m => (m.old ? 'z.string().regex(/^\\d\\d:\\d\\d$/)' : m.rng.pick(['z.iso.time()', 'z.iso.time({ precision: -1 })'])),
  duration: m => (m.old ? 'z.string().duration()' : 'z.iso.duration()'),
  uuid: m => (m.old ? 'z.string().uuid()' : m.rng.pick(['z.uuid()', 'z.uuidv4()', 'z.uuidv7()', 'z.guid()'])),
  ip: m => (m.old ? 'z.string().ip({ version: "v4" })' : m.rng.pick(['z.ipv4()', 'z.ipv6()', 'z.cidrv4()', 'z.cidrv6()'])),
  id: m =>
    m.old
      ? m.rng.pick(['z.string().nanoid()', 'z.string().cuid()', 'z.string().ulid()'])
      : m.rng.pick(['z.nanoid()', 'z.cuid()', 'z.cuid2()', 'z.ulid()', 'z.xid()', 'z.ksuid()', 'z.e164()', 'z.hex()', 'z.hostname()', 'z.mac()', ...(m.strict ? [] : ['z.base64()', 'z.base64url()'])]),
  constrainedString: m => {
    const r = m.rng
    if (r.one(3)) return `z.string().regex(${r.pick(PATTERNS)})`
    const least = r.below(4)
    return r.pick([
      `z.string().min(${least})`, `z.string().max(${5 * (1 + r.below(40))})`, `z.string().min(${least}).max(${least + r.below(60)})`, `z.string().length(${1 + r.below(12)})`,
      'z.string().nonempty()', `z.string().startsWith(${quote(r.pick(WORDS) + '.')})`, `z.string().endsWith(${quote(r.pick(WORDS))})`, `z.string().includes(${quote(r.pick(WORDS))})`,
      ...(m.old ? [] : ['z.string().uppercase()', 'z.string().lowercase()']),
    ])
  },
  constrainedNumber: m => {
    const r = m.rng
    const low = r.below(2000) - 1000
    const high = low + 20 + r.below(10000)
    return r.pick([
      `z.number().min(${low}).max(${high})`, `z.number().gt(${low}).lt(${high})`, `z.number().int().min(${low}).max(${high})`, 'z.number().positive()', 'z.number().nonnegative()',
      'z.number().int().negative()', `z.number().int().multipleOf(${r.pick([2, 3, 5, 7, 10, 12, 100])})`, `z.number().min(0).max(1000).multipleOf(${r.pick([0.5, 0.25, 0.01])})`, 'z.number().gt(0.5)',
    ])
  },
  literal: m => {
    const r = m.rng
    const values = r.some(WORDS, 1, 4)
    if (r.one(3)) values.push(...r.some([0, 1, -7, true, 'a"b', 'ü', 'new\nline'], 1, 2))
    if (m.old) return values.length === 1 ? `z.literal(${quote(values[0])})` : `z.union([${values.map(v => `z.literal(${quote(v)})`).join(', ')}])`
    return values.length === 1 ? `z.literal(${quote(values[0])})` : `z.literal(${quote(values)})`
  },
  enum: m => (m.rng.one(4) ? (m.old ? 'z.nativeEnum' : 'z.enum') + '({ A: 1, B: 2, C: "c" })' : `z.enum(${quote(m.rng.some(WORDS, 2, 6))})`),
}

const CONTAINERS = {
  optional: (m, depth) => `${m.type(depth - 1)}.${m.rng.pick(['optional', 'nullish'])}()`,
  nullable: (m, depth) => `${m.type(depth - 1)}.nullable()`,
  union: m => `z.union([${m.rng.some(['z.string()', 'z.number()', 'z.boolean()', 'z.null()', 'z.array(z.number())', 'z.object({ a: z.string() })'], 2, 3).join(', ')}])`,
  array: (m, depth) => {
    const a = `z.array(${m.type(depth - 1)})`
    return m.rng.one(3) ? a + m.rng.pick(['.min(1)', '.min(1).max(3)', '.nonempty()', '.length(2)', '.max(4)']) : a
  },
  tuple: (m, depth) => {
    const items = Array.from({ length: 1 + m.rng.below(3) }, () => m.type(depth - 1))
    return `z.tuple([${items.join(', ')}]${m.rng.one(3) && !m.old ? ', z.string()' : ''})`
  },
  record: (m, depth) =>
    `z.${m.rng.pick(['record(z.string()', 'record(z.uuid()', 'record(z.enum(["a", "b"])', 'partialRecord(z.enum(["a", "b", "c"])', 'record(z.string().min(1).max(8)'])}, ${m.type(depth - 1)})`,
  recordPattern: (m, depth) => `z.${m.rng.pick(['record', 'record', 'looseRecord'])}(z.string().regex(${m.rng.pick(KEY_PATTERNS)}), ${m.type(depth - 1)})`,
  object: (m, depth) => m.object(depth - 1),
  loose: (m, depth) => m.rng.pick([`z.looseObject({ id: ${m.type(depth - 1)} })`, `z.object({ id: z.int() }).catchall(z.union([z.string(), z.int()]))`]),
  discriminatedUnion: (m, depth) => m.discriminated(depth),
  recursion: (m, depth) => m.recursion(depth),
  intersection: (m, depth) => `z.intersection(z.object({ left: ${m.type(depth - 1)} }), z.object({ right: ${m.type(depth - 1)} }))`,
  templateLiteral: m => m.rng.pick(['z.templateLiteral([z.int(), z.enum(["px", "em", "rem"])])', 'z.templateLiteral(["user-", z.string()])']),
  any: m => m.rng.pick(['z.any()', 'z.unknown()', 'z.json()']),
}

// What zod checks and does not say in the schema, and how it is written with zod 4 and 3.
const LESS = {
  'jwt': ['z.jwt()', 'z.string().jwt()'],
  'refinement': ['z.string().refine(s => s.length % 2 === 0)', 'z.string().refine(s => s.length % 2 === 0)'],
  'protocol of a url': ['z.url({ protocol: /^https$/ })', null],
  'base64': [null, 'z.string().base64()'],
  'emoji': ['z.emoji()', 'z.string().emoji()'],
  'cidr': [null, 'z.string().cidr()'],
  // It refuses some forms of IPv6 with an IPv4 address in it, which the format has.
  'ip of both versions': [null, 'z.string().ip()'],
}
for (const k of Object.keys(LESS)) if (LESS[k][0] === null) LESS[k][0] = LESS.refinement[0]

function load(number) {
  const m = new Model(number)
  const source = m.write()
  const z = m.old ? zod3.z : zod4
  return { m, source, schema: new Function('z', source)(z) }
}

function jsonSchema(m, schema) {
  return m.sent === 'zod' ? zod4.toJSONSchema(schema) : zodResponseFormat(schema, 'answer').json_schema.schema
}

const at = (text, path) => path.reduce((v, k) => v?.[k], JSON.parse(text))

// JSON Schema counts characters. zod counts the units of UTF-16, of which an emoji has two.
const onlyUnits = (issue, input) => issue.code === 'too_big' && typeof input === 'string' && [...input].length <= issue.maximum

function read(path) {
  const models = new Map()
  const count = new Map()
  const add = k => count.set(k, (count.get(k) ?? 0) + 1)
  let errors = 0
  for (const line of readFileSync(path, 'utf8').split('\n')) {
    if (!line) continue
    const { id, text } = JSON.parse(line)
    if (!id.startsWith('zod-')) continue
    const number = Number(id.split('-')[1])
    if (!models.has(number)) models.set(number, load(number))
    const { m, schema } = models.get(number)
    const less = m.less.size > 0
    try {
      schema.parse(JSON.parse(text))
      add('read back')
    } catch (e) {
      const issues = e.issues ?? [{ code: e.name, message: e.message, path: [] }]
      if (!less && issues.every(i => onlyUnits(i, at(text, i.path)))) {
        add('longer only in UTF-16 units, which JSON Schema does not count')
        continue
      }
      add(less ? 'more is checked than the schema says' : 'ERRORS')
      for (const i of issues) {
        add((less ? 'more is checked than the schema says: ' : 'ERRORS: ') + i.code + (i.format ? ' ' + i.format : ''))
        if (less) continue
        errors++
        const input = at(text, i.path)
        console.log(JSON.stringify({ id, type: i.code, msg: i.message.slice(0, 200), loc: i.path, input: JSON.stringify(input)?.slice(0, 300) }))
      }
    }
  }
  for (const [k, n] of [...count].sort()) console.log(`zod  ${k}: ${n}`)
  return errors
}

const [command, argument] = process.argv.slice(2)
switch (command) {
  case 'schemas':
    for (let number = 0; number < MODELS; number++) {
      const { m, schema } = load(number)
      console.log(JSON.stringify({ id: `zod-${number}`, sent: m.sent, features: [...m.features].sort(), less: [...m.less].sort(), schema: jsonSchema(m, schema) }))
    }
    break
  case 'source':
    console.log(new Model(Number(argument)).write())
    break
  case 'read':
    process.exitCode = read(argument) ? 1 : 0
    break
  default:
    console.error('usage: node zod_models.mjs schemas | source NUMBER | read FILE')
    process.exitCode = 2
}
