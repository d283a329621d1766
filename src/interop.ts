export { fromNative } from '../operators/from-native.js';
export type { SubscribableLike, SubscribableObserver } from '../operators/from-subscribable.js';
export { fromSubscribable } from '../operators/from-subscribable.js';
export type { NativeObservable, NativeObservableClass, NativeObserver, NativeSubscriber, ToNativeOptions } from '../operators/to-native.js';
export { toNative } from '../operators/to-native.js';
