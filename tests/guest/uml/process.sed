# Of arch/um/os-Linux/skas/process.c. A kernel outlives that all processes of the machine are stopped and continued.
/^#define STUB_SIG_MASK/s/\(1 << SIGWINCH\)/& | (1 << SIGSTOP) | (1 << SIGCONT)/
/^\t+case SIGALRM:$/i \	case SIGSTOP: case SIGCONT:
