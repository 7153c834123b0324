// Texts of a page whose contrast with their ground is below 4.5.
const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
const rgb = (color) => {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = color;
  canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
};
const part = (v) => (v / 255 <= .03928 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4);
const light = ([r, g, b]) => .2126 * part(r) + .7152 * part(g) + .0722 * part(b);
const over = (top, below) => { const a = top[3] / 255; return [0, 1, 2].map((i) => top[i] * a + below[i] * (1 - a)); };
const poor = [];
for (const each of document.querySelectorAll('main *, .subject *, .top *')) {
  if (![...each.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())) continue;
  const box = each.getBoundingClientRect(), style = getComputedStyle(each);
  if (!box.width || each.closest('svg, .hidden, .undone') || each.disabled) continue;
  const layers = [];
  for (let at = each; at; at = at.parentElement) layers.push(rgb(getComputedStyle(at).backgroundColor));
  const ground = layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  const ink = over(rgb(style.color), ground), [a, b] = [light(ink), light(ground)];
  const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  if (ratio < 4.5) poor.push([each.tagName, each.className, each.textContent.trim().slice(0, 30), ratio.toFixed(2)]);
}
return poor;
