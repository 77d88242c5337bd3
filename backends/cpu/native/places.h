// Where a thread runs that is woken: not on the core of the one that wakes it.
//
// Linux puts a sleeper on its waker's core when the core that it left looks taken, as an idle one of
// a virtual machine does, and the two then share it for milliseconds. So the waker forbids it that
// core first, and the sleeper, once it runs, may go everywhere again.
enum { AWAKE, ASLEEP, HELD, MOVED };

struct place {
  _Atomic int state;  // HELD: by a thread that moves it
  _Atomic(struct event *) on;
  pthread_t thread;
#ifdef __linux__
  cpu_set_t allowed, others;  // before it was moved, and since
#endif
};
static struct place places[1 << THREAD_BITS];  // of the threads of a round, its caller's first
static _Thread_local struct place *here;

#ifdef __linux__
// Forbids a thread the core of this one. 0 where it has no other, or the system does not let us.
static int move(struct place *p) {
  const int core = sched_getcpu();
  if (core < 0 || core >= CPU_SETSIZE ||
      pthread_getaffinity_np(p->thread, sizeof p->allowed, &p->allowed))
    return 0;
  p->others = p->allowed;
  CPU_CLR(core, &p->others);
  return CPU_COUNT(&p->others) && !pthread_setaffinity_np(p->thread, sizeof p->others, &p->others);
}
// Unless somebody gave it other cores meanwhile: those stay.
static void move_back(struct place *p) {
  cpu_set_t now;
  if (pthread_getaffinity_np(p->thread, sizeof now, &now) || !CPU_EQUAL(&now, &p->others)) return;
  pthread_setaffinity_np(p->thread, sizeof p->allowed, &p->allowed);
}
#else
static int move(struct place *p) { return (void)p, 0; }
static void move_back(struct place *p) { (void)p; }
#endif

static void lie_down(struct event *e) {
  here->thread = pthread_self();
  atomic_store(&here->on, e);
  atomic_store(&here->state, ASLEEP);
}

static void get_up(void) {
  int state = ASLEEP;
  if (atomic_compare_exchange_strong(&here->state, &state, AWAKE)) return;
  while ((state = atomic_load(&here->state)) == HELD) sched_yield();
  if (state == MOVED) move_back(here);
  atomic_store(&here->state, AWAKE);
}

// Before those are woken who sleep on an event.
static void make_room(struct event *e) {
  for (struct place *p = places; p <= places + workers; p++) {
    int state = ASLEEP;
    if (atomic_load(&p->on) == e && atomic_compare_exchange_strong(&p->state, &state, HELD))
      atomic_store(&p->state, move(p) ? MOVED : ASLEEP);
  }
}
