/* Answers like NVIDIA's libnvidia-ml.so.1, from a description in the variable NVML_STAND_IN:
 * one entry per GPU, "UTIL:MEM:MILLIWATT:PID", "mig" or "lost"; or "driver=CODE" for nvmlInit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK 0
#define NOT_SUPPORTED 3
#define INSUFFICIENT_SIZE 7
#define GPU_IS_LOST 15

typedef struct { char kind; unsigned util, mem, milliwatt, pid; int reads; } Gpu;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct {
  unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance;
} Process;

static Gpu gpus[16];
static unsigned count;

int nvmlInitWithFlags(unsigned flags) {
  const char *said = getenv("NVML_STAND_IN");
  char text[512];
  (void)flags;
  count = 0;
  if (said == NULL) return OK;
  if (strncmp(said, "driver=", 7) == 0) return atoi(said + 7);
  snprintf(text, sizeof text, "%s", said);
  for (char *word = strtok(text, " "); word && count < 16; word = strtok(NULL, " ")) {
    Gpu *gpu = &gpus[count++];
    memset(gpu, 0, sizeof *gpu);
    gpu->kind = word[0];
    if (gpu->kind != 'm' && gpu->kind != 'l')
      sscanf(word, "%u:%u:%u:%u", &gpu->util, &gpu->mem, &gpu->milliwatt, &gpu->pid);
  }
  return OK;
}

int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { (void)code; return "Unknown Error"; }
int nvmlDeviceGetCount_v2(unsigned *found) { *found = count; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Gpu **handle) {
  *handle = &gpus[index];
  return OK;
}

int nvmlDeviceGetName(Gpu *gpu, char *name, unsigned size) {
  (void)gpu;
  snprintf(name, size, "NVIDIA H100 80GB HBM3");
  return OK;
}

int nvmlDeviceGetEnforcedPowerLimit(Gpu *gpu, unsigned *milliwatt) {
  (void)gpu;
  *milliwatt = 700000;
  return OK;
}

#ifndef OLD_DRIVER
int nvmlDeviceGetMigMode(Gpu *gpu, unsigned *current, unsigned *pending) {
  *current = *pending = gpu->kind == 'm';
  return OK;
}
#endif

int nvmlDeviceGetUtilizationRates(Gpu *gpu, Utilization *rates) {
  if (gpu->kind == 'l' && gpu->reads++ > 0) return GPU_IS_LOST;
  if (gpu->kind == 'm') return NOT_SUPPORTED;
  rates->gpu = gpu->util;
  rates->memory = gpu->mem;
  return OK;
}

int nvmlDeviceGetMemoryInfo(Gpu *gpu, Memory *memory) {
  (void)gpu;
  memory->total = 85899345920ULL;
  memory->used = 42949672960ULL;
  memory->free = memory->total - memory->used;
  return OK;
}

int nvmlDeviceGetPowerUsage(Gpu *gpu, unsigned *milliwatt) {
  *milliwatt = gpu->milliwatt;
  return OK;
}

int nvmlDeviceGetClockInfo(Gpu *gpu, int type, unsigned *mhz) {
  (void)gpu;
  *mhz = type == 1 ? 1980 : 0; /* 1 is NVML_CLOCK_SM */
  return OK;
}

#ifdef OLD_DRIVER
#define nvmlDeviceGetComputeRunningProcesses_v3 nvmlDeviceGetComputeRunningProcesses_v2
#endif
int nvmlDeviceGetComputeRunningProcesses_v3(Gpu *gpu, unsigned *found, Process *processes) {
  unsigned room = *found;
  *found = gpu->pid ? 1 : 0;
  if (!gpu->pid) return OK;
  if (room < 1) return INSUFFICIENT_SIZE;
  memset(processes, 0, sizeof *processes);
  processes->pid = gpu->pid;
  return OK;
}
