// Prints the path of tmux, for the test of the live view in a real terminal, and installs Debian's where there is none.
//   node .ci/tmux.mjs
import { printProgram } from './debian.mjs';

printProgram({
  variable: 'TMUX_PATH',
  names: ['tmux'],
  debian: 'tmux',
  needs: 'The test of the live view needs',
  orSet: 'its path',
  asked: '-V',
});
