// No zone and no build step: the compiler comes along.
import '@angular/compiler';
import { Component, provideZonelessChangeDetection } from '@angular/core';
import { bootstrapApplication } from '@angular/platform-browser';
import { fromStore } from '../../../examples/frontends/angular.js';
import { expose, root, store } from './counter.js';

class Counter {
  readonly count = fromStore(store);
}
Component({ selector: 'app-counter', template: '<p>{{ count() }}</p>' })(Counter);

root.append(document.createElement('app-counter'));
const app = await bootstrapApplication(Counter, { providers: [provideZonelessChangeDetection()] });
expose(() => {
  app.destroy();
});
