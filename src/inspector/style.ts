/** Everything has a name that a page may set; `--sluice-color-scheme` is `light`, `dark`, or both as the system has it. */
export const STYLE = `
:host{display:block;container:sluice/inline-size;color-scheme:var(--sluice-color-scheme,light dark);
--bg:var(--sluice-background,light-dark(#fbfbfd,#14161c));--fg:var(--sluice-color,light-dark(#1c2230,#e9ecf3));
--soft:light-dark(#525b70,#a4adc0);--line:light-dark(#d9deea,#2e3442);--card:light-dark(#fff,#1b1f28);
--l0:var(--sluice-lane-0,light-dark(#1f6feb,#6ea8ff));--l1:var(--sluice-lane-1,light-dark(#b25e00,#f0a04b));
--l2:var(--sluice-lane-2,light-dark(#7a3fd0,#b993ff));--l3:var(--sluice-lane-3,light-dark(#0b7f86,#4cc4cb));
--ok:var(--sluice-ok,light-dark(#157a46,#4fce8a));--bad:var(--sluice-bad,light-dark(#c02636,#ff7a85));--gone:light-dark(#7b8497,#8d96a9);
background:var(--bg);color:var(--fg);border:1px solid var(--line);border-radius:12px;font:14px/1.4 system-ui,sans-serif;overflow:hidden}
*{box-sizing:border-box;margin:0}[hidden],:host([embedded]) .play{display:none!important}
section{padding:14px 16px 16px;display:grid;gap:12px}
header{display:flex;flex-wrap:wrap;gap:6px 12px;align-items:center}
h2{font-size:16px;font-weight:650}header p{color:var(--soft);flex:1;min-width:12em}
.bar{display:flex;flex-wrap:wrap;gap:6px}
button{font:inherit;font-size:13px;color:var(--fg);background:var(--card);border:1px solid var(--line);border-radius:7px;padding:3px 10px;min-height:28px;cursor:pointer}
button:hover{border-color:var(--soft)}:focus-visible{outline:2px solid var(--l0);outline-offset:2px}
[role=alert]{color:var(--bad)}
dl{display:flex;flex-wrap:wrap;gap:1px;background:var(--line);border:1px solid var(--line);border-radius:9px;overflow:hidden}
dl div{flex:1 1 max(105px,13.5%);background:var(--card);padding:6px 10px;display:flex;flex-direction:column;justify-content:space-between}
dd{font-size:18px;font-weight:600;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}dt{color:var(--soft);font-size:12px}
.lost.bad dd{color:var(--bad)}.lost dd{color:var(--ok)}
.stage{position:relative;display:grid;grid-template-columns:1.15fr .8fr 1.35fr .8fr;gap:14px}
canvas{position:absolute;inset:0;width:100%;height:100%;pointer-events:none}
.col{display:flex;flex-direction:column;min-width:0}
h3{font-size:14px;font-weight:650}h3 b{color:var(--soft);font-weight:400;font-size:12px;margin-right:4px}
.col p{color:var(--soft);font-size:12.5px;min-height:3.9em}
.area{flex:1;min-height:250px;display:flex;flex-direction:column;gap:4px;border-top:1px solid var(--line);padding-top:6px}
.row{flex:1;min-height:40px;font-size:12px;color:var(--soft);border-bottom:1px dashed var(--line)}.row:last-child{border:0}
.row b{color:var(--fg);font-weight:600;margin-right:4px}.row i{display:inline-block;width:8px;height:8px;border-radius:50%;margin-right:5px;background:var(--mark)}
.limits,.trees{display:grid;gap:6px}.limit{display:flex;flex-wrap:wrap;gap:4px 14px;align-items:center;font-size:13px}
.limit b{min-width:6em}.rate{display:inline-flex;gap:6px;align-items:center}
.level{width:110px;height:8px;border-radius:4px;background:var(--line);overflow:hidden}
.level i{display:block;height:100%;width:100%;background:var(--l0);transform-origin:left;transform:scaleX(var(--level))}.level.low i{background:var(--bad)}
.held{color:var(--bad)}.held:empty{display:none}
.tree>button{width:100%;text-align:left}.tree>div{overflow-x:auto;padding:6px 2px}
svg{display:block;font-size:12px}svg text{fill:var(--fg)}svg path{stroke:var(--line);fill:none;stroke-width:1.5}
.o-ok{fill:var(--ok)}.o-bad{fill:var(--bad)}.o-gone{fill:var(--gone)}.o-now{fill:var(--l0)}
.wide{overflow-x:auto;display:grid;gap:14px}table{border-collapse:collapse;width:100%;font-size:13px}caption{text-align:left;font-weight:600;padding:4px 0}
th,td{text-align:left;padding:3px 12px 3px 0;border-top:1px solid var(--line);font-weight:400;font-variant-numeric:tabular-nums;white-space:nowrap}thead th{color:var(--soft)}
input[type=range]{width:100%;accent-color:var(--l0)}
@container sluice (max-width:620px){.stage{grid-template-columns:1fr}.col p{min-height:0}.area{min-height:96px}.lanes .area{min-height:132px}
.calls .area{min-height:150px}section{padding:12px}dd{font-size:15px}dl div{flex-basis:max(105px,22%);padding:5px 7px}}
`;
