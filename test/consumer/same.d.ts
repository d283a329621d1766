/** Are both types exactly the same? `any` is the same as nothing but itself. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

/** `same<Expected>()(actual)` compiles only when the value has exactly the expected type. */
declare function same<Expected>(): <Actual>(
  actual: Actual,
  ...problem: Same<Actual, Expected> extends true ? [] : [expected: Expected, butGot: Actual]
) => void;
