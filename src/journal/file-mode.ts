/** Of files with prompts, answers and what is made of them: their owner reads and writes them, and no other user. A file that is there keeps its mode. */
export const OWN_FILE_MODE = 0o600;
