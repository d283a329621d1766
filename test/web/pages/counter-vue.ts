import { Subject } from 'rxjs';
import { createApp, h, reactive } from 'vue';
import { fromStore } from '../../../examples/frontends/vue.js';
import { toStore } from '../../../operators/index.js';
import { expose, root, source, store } from './counter.js';

// With `?reactive` the source itself is behind a proxy of Vue.
const isReactive = location.search.includes('reactive');
const state = reactive({ source: new Subject<number>() });
const shown = isReactive ? toStore(state.source as Subject<number>, 0, { pace: 'frame' }) : store;

const app = createApp({
  setup() {
    const count = fromStore(shown);
    return () => h('p', count.value);
  },
});
app.mount(root);
expose(
  () => {
    app.unmount();
  },
  isReactive ? (state.source as Subject<number>) : source,
);
