import { createComponent } from 'solid-js';
import { insert, render } from 'solid-js/web';
import { fromStore } from '../../../examples/frontends/solid.js';
import { expose, root, store } from './counter.js';

function Counter(): HTMLElement {
  const count = fromStore(store);
  const shown = document.createElement('p');
  // What Solid's compiler makes of `<p>{count()}</p>`.
  insert(shown, count);
  return shown;
}

expose(render(() => createComponent(Counter, {}), root));
