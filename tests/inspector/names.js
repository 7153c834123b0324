// Elements without a name for readers who do not see them, and names that two elements have.
const wrong = [];
const ids = [...document.querySelectorAll('[id]')].map((each) => each.id);
ids.filter((each, at) => ids.indexOf(each) !== at).forEach((each) => wrong.push(`two of #${each}`));
for (const each of document.querySelectorAll('a[href], button, input:not([type=hidden]), select, summary, [role=img], dialog, nav, section')) {
  const by = each.getAttribute('aria-labelledby');
  const label = each.getAttribute('aria-label') || (by && document.getElementById(by) && document.getElementById(by).textContent) || (each.labels && each.labels[0] && each.labels[0].textContent) || each.textContent || each.placeholder;
  const fine = each.tagName === 'SECTION' ? !each.hasAttribute('aria-labelledby') || document.getElementById(by) : label && label.trim();
  if (!fine) wrong.push(each.outerHTML.slice(0, 100));
}
if (document.querySelectorAll('h1').length !== 1) wrong.push(`${document.querySelectorAll('h1').length} h1`);
if (!document.documentElement.lang || !document.title) wrong.push('no language, or no title');
return wrong;
