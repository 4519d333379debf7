/* style.c - how pages look: one sheet, written into every page.
 *
 * The colours of series were searched for: any two are far apart for whoever sees all colours or lacks one kind of
 * cone, and all of them stand out against the page; texts have a contrast of 4.5 : 1 at least. test_report_pages.py
 * checks all of this. Paper is always light.
 */
#include "report/page.h"

const char *const page_css[] = {
    ":root{color-scheme:light;--back:#fff;--card:#f6f6f4;--edge:#e2e1dd;--ink:#1d1d1b;--soft:#5e5d59;--ember:#b93c10;"
    "--c0:#1e49c1;--c1:#df6c15;--c2:#008546;--c3:#ab568c;--c4:#734d0b;--c5:#039cda;--c6:#3e4744;--c7:#8679f9;"
    "--shade:#0000002e;--good:#00694d;--warning:#8a5a00;--alarm:#b3261e;--right:0 103 163;--wrong:213 94 0}\n",
    "@media screen and (prefers-color-scheme:dark){:root{color-scheme:dark;--back:#161615;--card:#201f1e;"
    "--edge:#393836;--ink:#ecebe7;--soft:#aaa8a2;--ember:#ff8a5c;--c0:#3ed5ff;--c1:#f87d3e;--c2:#58a580;--c3:#c274b1;"
    "--c4:#f5be2b;--c5:#acccc9;--c6:#c2c67d;--c7:#a683ff;--good:#4fcfa9;--warning:#e9b949;--alarm:#ff8d85;"
    "--shade:#ffffff38;--right:46 130 184;--wrong:184 92 28}}\n",
    "*{box-sizing:border-box}\n",
    "html{-webkit-text-size-adjust:100%}\n",
    "body{margin:0 auto;max-width:1080px;padding:2.5rem 1.5rem 2rem;background:var(--back);color:var(--ink);"
    "font:16px/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\",\"Noto Sans\",\"DejaVu "
    "Sans\",Arial,"
    "sans-serif;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}\n",
    "h1,h2,p,th,td,dt,dd,figcaption,caption,li{unicode-bidi:isolate}\n",
    "header{border-left:4px solid var(--ember);padding-left:1rem;margin-bottom:1.75rem}\n",
    "h1{font-size:1.75rem;line-height:1.2;font-weight:650;letter-spacing:-.01em;margin:0;text-wrap:balance}\n",
    "header p{margin:.35rem 0 0;color:var(--soft)}\n",
    "section{margin-top:2.75rem}\n",
    "h2{font-size:1.2rem;line-height:1.3;font-weight:650;margin:0 0 1rem;padding-bottom:.4rem;"
    "border-bottom:1px solid var(--edge)}\n",
    "p{margin:.75rem 0;max-width:70ch}\n",
    "small{font-size:.8125rem;color:var(--soft)}\n",
    "footer{margin-top:3.5rem;padding-top:.75rem;border-top:1px solid var(--edge);font-size:.8125rem;"
    "color:var(--soft)}\n",
    ".unseen{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}\n",
    ".columns{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:1.75rem 2.25rem}\n",
    ".lead{font-size:1.15rem;line-height:1.45;font-weight:600;max-width:none}\n",
    ".scroll+.remark{margin-top:-.75rem}\n",
    ".list{margin:.75rem 0;padding-left:1.25rem}.list li{margin:.3rem 0;max-width:80ch}\n",
    /* outputs */
    ".output{margin:1rem 0}\n",
    "pre{margin:0;padding:.7rem .9rem;max-height:20rem;overflow:auto;background:var(--card);border-radius:4px;"
    "font:.8125rem/1.45 ui-monospace,\"DejaVu Sans Mono\",monospace;white-space:pre-wrap}\n",
    "pre:focus-visible{outline:2px solid var(--c0);outline-offset:2px}\n",
    /* notices */
    ".notice{max-width:none;margin:.6rem 0;padding:.6rem .9rem;border:1px solid var(--edge);border-left-width:4px;"
    "border-radius:4px;background:var(--card)}\n",
    ".notice strong{margin-right:.3em}\n",
    ".good{border-left-color:var(--good)}.good strong{color:var(--good)}\n",
    ".warning{border-left-color:var(--warning)}.warning strong{color:var(--warning)}\n",
    ".alarm{border-left-color:var(--alarm)}.alarm strong{color:var(--alarm)}\n",
    /* facts */
    "dl,dd{margin:0}\n",
    "dt{color:var(--soft);font-size:.8125rem;line-height:1.4}\n",
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.75rem;margin:1.25rem 0}\n",
    ".tiles "
    "div{display:flex;flex-direction:column;justify-content:space-between;gap:.15rem;background:var(--card);border-"
    "radius:6px;padding:.8rem 1rem}\n",
    ".tiles dd{font-size:1.2rem;line-height:1.3;font-weight:600;letter-spacing:-.01em}\n",
    ".facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,14rem),1fr));gap:.7rem 2rem}\n",
    ".facts dd{line-height:1.4}.facts .long{grid-column:1/-1}\n",
    /* tables */
    ".scroll{position:relative;overflow:auto;max-height:34rem;margin:1.25rem 0}\n",
    /* A shade at the edge behind which there is more; at the end a cover that scrolls along lies over it. */
    "@media screen{.scroll{background:linear-gradient(to left,var(--back) 40%,transparent) right/2.5rem 100% local,"
    "linear-gradient(to top,var(--back) 40%,transparent) bottom/100% 2.5rem local,"
    "linear-gradient(to left,var(--shade),transparent) right/.75rem 100%,"
    "linear-gradient(to top,var(--shade),transparent) bottom/100% .75rem;background-repeat:no-repeat}}\n",
    ".scroll:focus-visible{outline:2px solid var(--c0);outline-offset:2px}\n",
    "table{border-collapse:collapse;font-size:.9375rem}\n",
    "caption,figcaption{text-align:left;font-weight:600;font-size:.9375rem;margin:0 0 .5rem}\n",
    "caption{padding-bottom:.4rem}\n",
    ".scroll caption{position:sticky;left:0;max-width:min(100vw - 3rem,1032px)}\n",
    ".scroll table:not(.matrix){min-width:min(100%,32rem)}\n",
    ".scroll th,.scroll td{padding:.3rem .6rem;text-align:right;white-space:nowrap}\n",
    ".scroll th{font-weight:400}\n",
    ".scroll .text,.scroll tbody th{text-align:left}.scroll .text{white-space:normal;min-width:9rem}\n",
    ".scroll tbody th.text{min-width:12rem}\n",
    "@media screen and (min-width:561px){.scroll tbody .text:not(.long){white-space:nowrap;min-width:0}"
    ".scroll thead .text{min-width:0}}\n",
    ".scroll thead "
    "th{white-space:normal;overflow-wrap:normal;position:sticky;top:0;background:var(--back);font-size:.8125rem;"
    "color:var(--soft);"
    "vertical-align:bottom;box-shadow:0 1px var(--edge)}\n",
    ".scroll tbody th,.scroll thead>tr>:first-child{position:sticky;left:0;z-index:1;background:var(--back)}\n",
    ".scroll thead>tr>:first-child{z-index:2}\n",
    ".scroll tbody tr+tr{border-top:1px solid var(--edge)}\n",
    ".scroll tbody th:first-child,.scroll thead th:first-child{padding-left:0}\n",
    ".best{font-weight:650;color:var(--good)}\n",
    ".best::before{content:\"\\2605\";font-size:.7em;margin-right:.35em;vertical-align:.1em}\n",
    ".worst{font-weight:650;color:var(--alarm)}\n",
    ".worst::before{content:\"\\25bc\";font-size:.65em;margin-right:.4em;vertical-align:.1em}\n",
    /* charts */
    "figure{margin:0;min-width:0;break-inside:avoid}\n",
    ".over,.under,.remark,.none,.legend{font-size:.8125rem;color:var(--soft);margin:0}\n",
    ".over{min-height:1.5em}\n",
    ".under{text-align:right;margin-right:16px}\n",
    ".remark{margin-top:.3rem}\n",
    ".none{padding:2rem 0}\n",
    ".legend{display:flex;flex-wrap:wrap;gap:.1rem 1.1rem;padding:0;margin-bottom:.35rem;list-style:none;"
    "color:var(--ink)}\n",
    ".legend svg{margin-right:.4rem;vertical-align:baseline}\n",
    ".plot{display:block;width:calc(100% - 68px);height:220px;margin:8px 16px 26px 52px;overflow:visible}\n",
    ".plot svg{overflow:visible}\n",
    ".plot text{font-size:12px;fill:var(--soft)}\n",
    ".y{text-anchor:end}.x{text-anchor:middle}\n",
    ".grid{stroke:var(--edge)}.base{stroke:var(--soft)}\n",
    ".c0{--c:var(--c0)}.c1{--c:var(--c1)}.c2{--c:var(--c2)}.c3{--c:var(--c3)}"
    ".c4{--c:var(--c4)}.c5{--c:var(--c5)}.c6{--c:var(--c6)}.c7{--c:var(--c7)}\n",
    ".line{fill:none;stroke:var(--c);stroke-width:2px;stroke-linejoin:round;stroke-linecap:round;"
    "vector-effect:non-scaling-stroke}\n",
    ".dashed{stroke-dasharray:6 5}\n",
    ".full,circle.full{fill:var(--c);stroke:var(--back);stroke-width:1}\n",
    ".hollow,circle.hollow{fill:var(--back);stroke:var(--c);stroke-width:1.75}\n",
    ".dense circle:not(.mark){opacity:0}\n",
    ".dots circle:hover{stroke:var(--ink);stroke-width:2;opacity:1}\n",
    /* bars */
    ".bars{display:block;margin:0 0 1.25rem;break-inside:avoid}\n",
    ".bars caption,.bars tbody{display:block}\n",
    ".bars tr{display:grid;grid-template-columns:minmax(0,13rem) minmax(0,1fr) minmax(0,11rem);gap:.9rem;"
    "padding:.25rem 0}\n",
    ".bars th,.bars td{padding:0;text-align:left;font-weight:400;line-height:1.3}\n",
    ".bars .group th{grid-column:1/-1;font-weight:600;padding-top:.6rem}\n",
    ".bars small{display:block;font-weight:400}\n",
    ".bars .best{font-weight:650}\n",
    ".bars svg{display:block;width:100%;height:1.1rem;margin-top:.05rem;overflow:visible}\n",
    ".bars rect{fill:var(--c);fill-opacity:.7}\n",
    ".bars line{stroke:var(--ink);stroke-width:1.5}\n",
    /* matrices */
    ".matrix td{text-align:center;padding:.25rem .4rem;min-width:2.4rem;border:1px solid var(--back)}\n",
    ".matrix tbody td{background:var(--card);color:var(--soft)}\n",
    ".matrix tbody tr+tr{border-top:0}\n",
    ".matrix tbody .r,.matrix tbody .w{color:var(--ink)}\n",
    ".matrix tbody .r{background:linear-gradient(rgb(var(--right)/var(--a)) 0 0) var(--card)}\n",
    ".matrix tbody .w{background:linear-gradient(rgb(var(--wrong)/var(--a)) 0 0) var(--card)}\n",
    ".matrix thead td{text-align:left;vertical-align:bottom;"
    "padding:.3rem .75rem .3rem 0;font-size:.8125rem;color:var(--soft)}\n",
    ".matrix thead td span{display:block}\n",
    ".matrix thead th{padding:.4rem .2rem;text-align:left;white-space:nowrap}\n",
    ".matrix thead th span{display:inline-block;writing-mode:vertical-rl;transform:rotate(180deg);max-height:7rem;"
    "overflow:hidden;text-overflow:ellipsis}\n",
    ".matrix tbody th span{display:block;max-width:9rem;overflow:hidden;text-overflow:ellipsis}\n",
    ".small{font-size:.6875rem;line-height:1.1}\n",
    ".scroll .small td{padding:0;min-width:13px;width:13px;height:13px;border-width:0 1px 1px 0}\n",
    ".scroll .small thead th{padding:2px 0;font-size:.6875rem;line-height:13px}\n",
    ".scroll .small tbody th{padding:0 .4rem 0 0}\n",
    ".small tbody th span{max-width:7rem}\n",
    "@media (max-width:560px){body{padding:1.5rem 1rem;font-size:15px}h1{font-size:1.4rem}section{margin-top:2.25rem}"
    ".tiles{grid-template-columns:1fr 1fr}.facts{grid-template-columns:1fr 1fr}.tiles dd{font-size:1.1rem}"
    ".plot{width:calc(100% - 56px);margin:8px 8px 26px 48px;height:200px}.under{margin-right:8px}"
    ".bars tr{grid-template-columns:minmax(0,1fr) minmax(0,8.5rem);gap:.1rem .75rem;padding:.35rem 0}"
    ".bars th{grid-column:1/-1}.scroll th,.scroll td{padding:.3rem .45rem}.matrix tbody th span{max-width:5.5rem}"
    ".scroll .text{min-width:6.5rem}.scroll tbody th.text{min-width:8.5rem}"
    ".scroll caption{max-width:calc(100vw - 2rem)}}\n",
    "@media print{body{max-width:none;padding:0;font-size:10.5pt}.scroll,pre{max-height:none;overflow:visible}"
    ".scroll table{font-size:8.5pt}.scroll th,.scroll td{padding:.15rem .35rem}"
    ".scroll thead th{font-size:8pt}.scroll .text,.scroll tbody th.text{min-width:4rem}"
    ".scroll caption{max-width:none}.scroll td.text:not(.long){overflow-wrap:normal}"
    "section{margin-top:1.6rem}h2{break-after:avoid}tr,.notice,.tiles div{break-inside:avoid}"
    ".columns{grid-template-columns:repeat(2,minmax(0,1fr));gap:1rem 1.5rem}.scroll table:not(.matrix){min-width:0}"
    ".scroll .small{font-size:4pt}.scroll .small thead th{padding:1px 0;font-size:4pt;line-height:5px}"
    ".scroll .small td{min-width:5px;width:5px;height:5px}"
    "*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}\n",
    NULL,
};
