"use strict";
(() => {
    const lines = new Map();
    for (const li of document.querySelectorAll("li[data-l]")) {
        const l = li.dataset.l;
        if (!lines.has(l)) lines.set(l, []);
        lines.get(l).push(li);
    }
    let held = null, over = null;
    const mark = (l, name, on) => { for (const li of lines.get(l) || []) li.classList.toggle(name, on); };
    // The first counterpart in each other pane comes into sight, without moving the page.
    const reveal = (l, from) => {
        const seen = new Set([from.parentNode]);
        for (const li of lines.get(l)) {
            const pane = li.parentNode;
            if (seen.has(pane)) continue;
            seen.add(pane);
            const top = li.offsetTop - pane.offsetTop;
            if (top < pane.scrollTop || top > pane.scrollTop + pane.clientHeight - 40)
                pane.scrollTop = top - pane.clientHeight / 3;
        }
    };
    const hold = (li) => {
        const l = li.dataset.l, again = l === held;
        if (held) mark(held, "held", false);
        held = again ? null : l;
        if (held) { mark(held, "held", true); reveal(held, li); }
    };
    document.addEventListener("mouseover", (e) => {
        const li = e.target.closest("li[data-l]"), l = li ? li.dataset.l : null;
        if (l === over) return;
        if (over) mark(over, "on", false);
        over = l;
        if (over) mark(over, "on", true);
    });
    document.addEventListener("click", (e) => {
        const li = e.target.closest("li[data-l]");
        if (li) hold(li);
        const heading = e.target.closest(".pane button");
        if (heading) heading.setAttribute("aria-pressed", heading.closest(".pane").classList.toggle("wide"));
    });
    // page.html#L12 holds line 12.
    const wanted = /^#L(\d+)$/.exec(location.hash);
    const start = wanted && document.querySelector(`#source li[data-l="${wanted[1]}"]`);
    if (start) hold(start);
})();
