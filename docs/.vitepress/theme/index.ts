import type { Theme } from 'vitepress';
import DefaultTheme from 'vitepress/theme';
import Board from './Board.vue';
import LiveDrawing from './LiveDrawing.vue';
import './style.css';

export default {
  extends: DefaultTheme,
  enhanceApp({ app }) {
    app.component('Board', Board);
    app.component('LiveDrawing', LiveDrawing);
  },
} satisfies Theme;
