import eslint from '@eslint/js';
import { defineConfig } from 'eslint/config';
import rxjsX from 'eslint-plugin-rxjs-x';
import tseslint from 'typescript-eslint';

const scripts = ['**/*.mjs', '**/*.cjs', '**/*.js'];

/** A queue kept in an array moves all of its items for each one that leaves or enters in front; `Backlog` moves none. */
const noArrayShift = {
  meta: { type: 'problem', schema: [], messages: { moves: '`{{method}}` moves every element behind it: use a `Backlog`, `Bag` or heap.' } },
  create(context) {
    const { getTypeAtLocation, program } = context.sourceCode.parserServices;
    const checker = program.getTypeChecker();
    return {
      'CallExpression > MemberExpression.callee[property.name=/^(shift|unshift|splice)$/]'(node) {
        const method = node.property.name;
        // `splice` with a start alone cuts the end off and moves nothing.
        const moves = method !== 'splice' || node.parent.arguments.length > 1;
        const type = checker.getNonNullableType(getTypeAtLocation(node.object));
        if (moves && checker.isArrayType(type)) context.report({ node, messageId: 'moves', data: { method } });
      },
    };
  },
};

const noEnums = { selector: 'TSEnumDeclaration', message: 'A union of strings needs no code.' };

export default defineConfig(
  // What is around the product is held to the same rules, without those of RxJS, by a linter that takes a tenth of the time: `.oxlintrc.json`.
  {
    ignores: [
      '**/dist/',
      '**/coverage/',
      '.declarations/',
      '**/node_modules/',
      '.stryker-tmp/',
      'operators/platform.d.ts',
      '{test,bench,examples,docs}/**/*.{ts,tsx,mts}',
    ],
  },
  eslint.configs.recommended,
  {
    files: ['**/*.ts', '**/*.tsx'],
    extends: [tseslint.configs.strictTypeChecked, rxjsX.configs.strict],
    languageOptions: { parserOptions: { project: 'tsconfig.lint.json', tsconfigRootDir: import.meta.dirname } },
    rules: {
      // There are no enums here, and to look for them in every assignment takes a tenth of the time.
      'no-restricted-syntax': ['error', noEnums],
      '@typescript-eslint/no-unsafe-enum-assignment': 'off',
      '@typescript-eslint/no-unsafe-enum-comparison': 'off',
      // `({ name: _, ...rest })` and `(_item) => …` say "left out on purpose".
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_', ignoreRestSiblings: true }],
      // A number or a boolean in a message is plain; objects and `any` are the mistakes the rule is for.
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
    },
  },
  {
    files: ['operators/**/*.ts'],
    plugins: { sluice: { rules: { 'no-array-shift': noArrayShift } } },
    rules: {
      'sluice/no-array-shift': 'error',
      'no-restricted-globals': [
        'error',
        ...['setTimeout', 'setInterval', 'setImmediate', 'queueMicrotask', 'performance', 'process'].map((name) => ({
          name,
          message: 'Operators take time from their rxjs scheduler, or they cannot run in virtual time.',
        })),
      ],
      'no-restricted-properties': [
        'error',
        { object: 'Date', property: 'now', message: 'Operators take time from their rxjs scheduler: `scheduler.now()`.' },
      ],
      'no-restricted-syntax': [
        'error',
        noEnums,
        { selector: "NewExpression[callee.name='Date'][arguments.length=0]", message: 'Operators take time from their rxjs scheduler.' },
        {
          selector: 'ClassDeclaration[superClass.name=/Subscriber$/] > ClassBody > * > PrivateIdentifier.key',
          message: 'A proxy (Vue) or another copy of RxJS calls this through an object that has no private members: use `private`.',
        },
      ],
    },
  },
  {
    // The files that subclass rxjs's `Subscriber`, and say why.
    files: ['operators/shell/streams/connect.ts'],
    rules: { 'rxjs-x/no-subclass': 'off', '@typescript-eslint/no-deprecated': 'off' },
  },
  {
    files: ['src/**/*.ts'],
    // A call without a value rejects with `EmptyError`, as documented.
    rules: { 'rxjs-x/no-ignored-default-value': 'off' },
  },
  {
    files: ['operators/kernel/**/*.ts'],
    rules: {
      'no-restricted-globals': ['error', { name: 'Promise', message: 'A kernel answers at once.' }],
      'no-restricted-properties': [
        'error',
        { object: 'Date', property: 'now', message: 'A kernel is told the time.' },
        { object: 'Math', property: 'random', message: 'A kernel is handed its randomness as a number.' },
      ],
    },
  },
  {
    files: ['marbles/specs/**/*.ts'],
    rules: {
      // Specs subscribe to streams they know to be good, and a wrong guess fails the test.
      'rxjs-x/no-ignored-default-value': 'off',
      'rxjs-x/no-ignored-error': 'off',
      '@typescript-eslint/no-non-null-assertion': 'off',
      'no-restricted-imports': [
        'error',
        {
          patterns: [
            {
              regex: '/operators/(?!kernel/index\\.js$)[^/]+/',
              message: 'A spec speaks to what is exported: `operators/index.ts`, or `operators/kernel/index.ts` for decisions.',
            },
          ],
        },
      ],
    },
  },
  {
    files: scripts,
    languageOptions: {
      globals: Object.fromEntries(
        [
          'console',
          'process',
          'Buffer',
          'URL',
          'AbortController',
          'AbortSignal',
          'DOMException',
          'fetch',
          'performance',
          'setTimeout',
          'clearTimeout',
          'structuredClone',
        ].map((name) => [name, 'readonly']),
      ),
    },
  },
  {
    files: ['**/*.cjs'],
    languageOptions: { sourceType: 'commonjs', globals: { require: 'readonly', module: 'writable', __dirname: 'readonly' } },
  },
);
