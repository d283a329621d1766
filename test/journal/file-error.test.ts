import { describe, expect, it } from 'vitest';
import { diskError } from '../../src/journal/file-error.js';

describe('diskError', () => {
  it.each([
    ['ENOSPC', 'cannot write the journal `j`: the disk is full (ENOSPC)'],
    ['EACCES', 'cannot write the journal `j`: permission denied (EACCES)'],
    ['EROFS', 'cannot write the journal `j`: the file system is read-only (EROFS)'],
    ['EIO', 'cannot write the journal `j`: the system refused (EIO)'],
  ])('says what %s means', (code, message) => {
    const error = diskError('write the journal `j`', Object.assign(new Error('system'), { code }));
    expect(error).toMatchObject({ fault: 'disk', message });
  });

  it('leaves other errors alone', () => {
    const bug = new TypeError('bug');
    expect(diskError('write', bug)).toBe(bug);
  });
});
