import { mount, unmount } from 'svelte';
import { expose, root, store } from './counter.js';
import Counter from './counter.svelte';

const counter = mount(Counter, { target: root, props: { store } });
expose(() => unmount(counter));
