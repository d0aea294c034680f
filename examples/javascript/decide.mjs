// Decisions of an exported model by ONNX Runtime for browsers (WebAssembly), here run by Node.js:
//
//   recuse datasets auto_mpg -o cars.csv
//   recuse fit cars.csv --target mpg --cost 6 --preset fast -o cars.recuse
//   recuse export cars.recuse --onnx cars.onnx
//   npm install onnxruntime-web
//   node decide.mjs cars.onnx 6 '{"weight": 2130, "horsepower": 88, "displacement": 97, ...}'
//
// In a page, replace process.argv by a form; the rest stays. Columns that are not given count as missing: NaN for
// numbers, "" for text and the smallest integer for dates.
import * as ort from 'onnxruntime-web';

const [file, cost, text] = process.argv.slice(2);
const row = {...JSON.parse(text), cost: Number(cost)};

ort.env.wasm.numThreads = 1;
const session = await ort.InferenceSession.create(file, {executionProviders: ['wasm']});

const missing = {float64: NaN, string: '', int64: -(2n ** 63n)};
const feeds = {};
for (const {name, type} of session.inputMetadata) {
  const value = row[name] ?? missing[type];
  // dates are microseconds since 1970
  const cell = type === 'int64' && typeof value === 'string' ? BigInt(Date.parse(`${value}Z`)) * 1000n : value;
  const cells = {float64: Float64Array, int64: BigInt64Array}[type]?.of(cell) ?? [String(cell)];
  feeds[name] = new ort.Tensor(type, cells, [1, 1]);
}

const {prediction, accepted, expected_loss: expectedLoss} = await session.run(feeds);
const loss = expectedLoss ? `, expected loss ${expectedLoss.data[0].toFixed(3)}` : '';
console.log(accepted.data[0] ? `prediction ${prediction.data[0].toFixed(3)}${loss}` : `ask an expert${loss}`);
