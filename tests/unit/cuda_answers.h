/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Answers of the daemon about CUDA calls, for the tests of what the client makes of them. Include after <cmocka.h>. In
 * the texts ' stands for ".
 */
#ifndef STAKEOUT_TESTS_CUDA_ANSWERS_H
#define STAKEOUT_TESTS_CUDA_ANSWERS_H

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_report.h"
#include "client/cuda/cuda_view.h"

/*
 * A training of 10 s. Two threads launch; a line reads the loss with .item() (copy, then sync), another uploads from
 * pageable memory; memory is allocated in the loop; streams wait for events at every launch; two files hold the
 * runtime. Each histogram is of these latencies:
 *   launch, main thread: 20000 × 3, 50000 × 4, 28000 × 6, 1800 × 8, 199 × 150, 1 × 2500 µs
 *   launch, autograd: 30000 × 3.5, 19990 × 5, 10 × 120 µs;  unknown kernels: 4000 × 5; 999 × 7, 1 × 9 µs;  graph: 100 ×
 *   40 µs
 *   sync: 1000 × 900, 1000 × 940 µs;  DtoH: 2000 × 8 µs;  HtoD async: 500 × 400 µs;  HtoD: 100 × 3 ms
 *   malloc: 290 × 150 µs, 10 × 1.2 ms; of the other runtime 5 × 90 µs;  free: 300 × 200 µs
 *   stream wait: 110000 × 600, 10000 × 1100 ns;  event query: 5000 × 500 ns
 */
#define CUDA_TRAINING                                                                                          \
	"{'pid':1234,'comm':'python3','duration_s':10.0,'cpu_s':6.5,'estimated':false,'available':true,"       \
	"'problems':['libcudnn.so.9: 3 calls inlined, not probed'],"                                           \
	"'probes':{'installed':74,'kind':'multi','floor_ns':310,'hits':286505,'returns':286505,'nested':1200," \
	"'stacks':9000,'cost_ns_per_call':780,'overhead_percent':3.44,'budget_percent':5.0,'state':'counted'," \
	"'rungs':{'launch':'counted'},'stack_period':{'launch':100,'sync':1,'copy':1,'stream-wait':50},"       \
	"'stack_time_ns':{'launch':15200000,'sync':99000000,'copy':15200000}},"                                \
	"'lost':{'calls-map-full':0,'unfinished':2},"                                                          \
	"'libraries':["                                                                                        \
	"{'id':2,'pid':1234,'path':'/opt/ext/lib/"                                                             \
	"libcudart.so.11.0','kind':'runtime','static':false,'probes':[]},"                                     \
	"{'id':1,'pid':1234,'path':'/opt/torch/lib/"                                                           \
	"libcudart.so.12','kind':'runtime','static':false,'probes':["                                          \
	"{'symbol':'cudaMalloc','api':'cudaMalloc','address':'0x4c1d4','offset_in_function':4,"                \
	"'instruction':'push rbp','emulated':true,'why':'first instruction that the kernel emulates'},"        \
	"{'symbol':'cudaFree_v2_ptsz','api':'cudaFree','address':'0x4d200','offset_in_function':0,"            \
	"'instruction':'sub rsp, 0x48','emulated':false,'why':'function entry: nothing better follows'}]}],"   \
	"'calls':["                                                                                            \
	"{'api':'cudaLaunchKernel','kind':'launch','library':1,'pid':1234,'tid':1234,'comm':'python3',"        \
	"'kernel':'void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >(int)',"   \
	"'kernel_address':'0x7f1200001000','direction':'','calls':100000,'errors':3,'total_ns':474750000,"     \
	"'min_ns':3000,'max_ns':2500000,'squares_ns2':12830700000000.0,'bytes':0,'blocks':25600000,"           \
	"'threads':3276800000,'grid':[256,1,1],'block':[128,1,1],'stream':'0x0','histogram':[[2944,64,20000]," \
	"[3968,64,50000],[5888,128,28000],[7936,128,1800],[147456,4096,199],[2490368,65536,1]]},"              \
	"{'api':'cudaLaunchKernel','kind':'launch','library':1,'pid':1234,'tid':1240,'comm':'pt_autograd_0',"  \
	"'kernel':'void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >(int)',"   \
	"'kernel_address':'0x7f1200001000','direction':'','calls':50000,'errors':0,'total_ns':206150000,"      \
	"'min_ns':3500,'max_ns':120000,'squares_ns2':1011250000000.0,'bytes':0,'blocks':3200000,"              \
	"'threads':409600000,'grid':[64,1,1],'block':[128,1,1],'stream':'0x0',"                                \
	"'histogram':[[3456,64,30000],[4992,128,19990],[118784,2048,10]]},"                                    \
	"{'api':'cudaLaunchKernel','kind':'launch','library':1,'pid':1234,'tid':1234,'comm':'python3',"        \
	"'kernel':null,'kernel_address':'0x7f1200002000','direction':'','calls':4000,'errors':0,"              \
	"'total_ns':20000000,'min_ns':5000,'max_ns':5000,'squares_ns2':1e11,'bytes':0,'blocks':4000,"          \
	"'threads':128000,'grid':[1,1,1],'block':[32,1,1],'stream':'0x0','histogram':[[4992,128,4000]]},"      \
	"{'api':'cuLaunchKernel','kind':'launch','library':3,'pid':1234,'tid':1234,'comm':'python3',"          \
	"'kernel':null,'kernel_address':'0x55aa10','direction':'','calls':1000,'errors':0,'total_ns':7002000," \
	"'min_ns':7000,'max_ns':9000,'squares_ns2':49032000000.0,'bytes':0,'blocks':8000,'threads':2048000,"   \
	"'grid':[8,1,1],'block':[256,1,1],'stream':'0x0','histogram':[[6912,128,999],[8960,256,1]]},"          \
	"{'api':'cudaGraphLaunch','kind':'launch','library':1,'pid':1234,'tid':1234,'comm':'python3',"         \
	"'kernel':null,'kernel_address':null,'direction':'','calls':100,'errors':0,'total_ns':4000000,"        \
	"'min_ns':40000,'max_ns':40000,'squares_ns2':1.6e11,'bytes':0,'blocks':0,'threads':0,'grid':[0,0,0],"  \
	"'block':[0,0,0],'stream':'0x0','histogram':[[39936,1024,100]]},"                                      \
	"{'api':'cudaStreamSynchronize','kind':'sync','library':1,'pid':1234,'tid':1234,'comm':'python3',"     \
	"'kernel':null,'kernel_address':null,'direction':'','calls':2000,'errors':0,'total_ns':1840000000,"    \
	"'min_ns':900000,'max_ns':940000,'squares_ns2':1.6936e15,'bytes':0,'blocks':0,'threads':0,"            \
	"'stream':'0x0','histogram':[[884736,16384,1000],[933888,16384,1000]]},"                               \
	"{'api':'cudaMemcpyAsync','kind':'copy','library':1,'pid':1234,'tid':1234,'comm':'python3',"           \
	"'direction':'DtoH','calls':2000,'errors':0,'total_ns':16000000,'min_ns':8000,'max_ns':8000,"          \
	"'squares_ns2':1.28e11,'bytes':8000,'stream':'0x0','histogram':[[7936,128,2000]]},"                    \
	"{'api':'cudaMemcpyAsync','kind':'copy','library':1,'pid':1234,'tid':1234,'comm':'python3',"           \
	"'direction':'HtoD','calls':500,'errors':0,'total_ns':200000000,'min_ns':400000,'max_ns':400000,"      \
	"'squares_ns2':8e13,'bytes':2000000000,'stream':'0x0','histogram':[[393216,8192,500]]},"               \
	"{'api':'cudaMemcpy','kind':'blocking-copy','library':1,'pid':1234,'tid':1234,'comm':'python3',"       \
	"'direction':'HtoD','calls':100,'errors':0,'total_ns':300000000,'min_ns':3000000,'max_ns':3000000,"    \
	"'squares_ns2':9e14,'bytes':400000000,'stream':'0x0','histogram':[[2949120,65536,100]]},"              \
	"{'api':'cudaMalloc','kind':'alloc','library':1,'pid':1234,'tid':1234,'comm':'python3',"               \
	"'direction':'','calls':300,'errors':10,'total_ns':55500000,'min_ns':150000,'max_ns':1200000,"         \
	"'squares_ns2':2.0925e13,'bytes':2900000000,'histogram':[[147456,4096,290],[1179648,32768,10]]},"      \
	"{'api':'cudaMalloc','kind':'alloc','library':2,'pid':1234,'tid':1234,'comm':'python3',"               \
	"'direction':'','calls':5,'errors':0,'total_ns':450000,'min_ns':90000,'max_ns':90000,"                 \
	"'squares_ns2':4.05e10,'bytes':5000000,'histogram':[[88064,2048,5]]},"                                 \
	"{'api':'cudaFree','kind':'free','library':1,'pid':1234,'tid':1234,'comm':'python3','direction':'',"   \
	"'calls':300,'errors':0,'total_ns':60000000,'min_ns':200000,'max_ns':200000,'squares_ns2':1.2e13,"     \
	"'bytes':0,'histogram':[[196608,4096,300]]},"                                                          \
	"{'api':'cudaStreamWaitEvent','kind':'stream-wait','library':1,'pid':1234,'tid':1234,'comm':'python3'" \
	","                                                                                                    \
	"'direction':'','calls':120000,'errors':0,'total_ns':77000000,'min_ns':600,'max_ns':1100,"             \
	"'squares_ns2':5.17e10,'bytes':0,'histogram':[[592,16,110000],[1088,32,10000]]},"                      \
	"{'api':'cudaEventQuery','kind':'event','library':1,'pid':1234,'tid':1240,'comm':'pt_autograd_0',"     \
	"'direction':'','calls':5000,'errors':4000,'total_ns':2500000,'min_ns':500,'max_ns':500,"              \
	"'squares_ns2':1.25e9,'bytes':0,'histogram':[[496,8,5000]]}],"                                         \
	"'errors':[{'api':'cudaMalloc','library':1,'pid':1234,'code':2,'count':10},"                           \
	"{'api':'cudaLaunchKernel','library':1,'pid':1234,'code':9,'count':3},"                                \
	"{'api':'cudaEventQuery','library':1,'pid':1234,'code':600,'count':4000}],"                            \
	"'lines':["                                                                                            \
	"{'event':'sync','api':'cudaStreamSynchronize','pid':1234,'tid':1234,'line':'log_loss (train.py:88)'," \
	"'stack':['_start','<module> (train.py:140)','main (train.py:120)','fit (loop.py:31)','epoch "         \
	"(loop.py:62)',"                                                                                       \
	"'train_step (train.py:70)','log_loss (train.py:88)','at::native::item (libtorch_cpu.so)'],"           \
	"'calls':1900,'total_ns':1750000000,'bytes':0,'sampled':false},"                                       \
	"{'event':'sync','api':'cudaStreamSynchronize','pid':1234,'tid':1234,'line':'log_loss (train.py:88)'," \
	"'stack':['<module> (train.py:140)','evaluate (train.py:101)','log_loss (train.py:88)'],"              \
	"'calls':100,'total_ns':90000000,'bytes':0,'sampled':false},"                                          \
	"{'event':'copy','api':'cudaMemcpyAsync','pid':1234,'tid':1234,'line':'log_loss (train.py:88)',"       \
	"'stack':['<module> (train.py:140)','log_loss (train.py:88)'],"                                        \
	"'calls':2000,'total_ns':16000000,'bytes':8000,'sampled':false},"                                      \
	"{'event':'copy','api':'cudaMemcpyAsync','pid':1234,'tid':1234,'line':'load_batch (data.py:17)',"      \
	"'stack':['<module> (train.py:140)','load_batch (data.py:17)'],"                                       \
	"'calls':500,'total_ns':200000000,'bytes':2000000000,'sampled':false},"                                \
	"{'event':'blocking-copy','api':'cudaMemcpy','pid':1234,'tid':1234,"                                   \
	"'line':'upload(float const*) (libsim.so)',"                                                           \
	"'stack':['main','upload(float const*) (libsim.so)'],"                                                 \
	"'calls':100,'total_ns':300000000,'bytes':400000000,'sampled':false},"                                 \
	"{'event':'alloc','api':'cudaMalloc','pid':1234,'tid':1234,'line':'grow (pool.py:12)',"                \
	"'stack':['<module> (train.py:140)','grow (pool.py:12)'],"                                             \
	"'calls':300,'total_ns':55000000,'bytes':2900000000,'sampled':true},"                                  \
	"{'event':'free','api':'cudaFree','pid':1234,'tid':1234,'line':'shrink (pool.py:20)',"                 \
	"'stack':['<module> (train.py:140)','shrink (pool.py:20)'],"                                           \
	"'calls':300,'total_ns':60000000,'bytes':0,'sampled':false},"                                          \
	"{'event':'launch','api':'cudaLaunchKernel','pid':1234,'tid':1234,'line':'forward (model.py:50)',"     \
	"'stack':['<module> (train.py:140)','forward (model.py:50)'],"                                         \
	"'calls':100000,'total_ns':500000000,'bytes':0,'sampled':true},"                                       \
	"{'event':'stream-wait','api':'cudaStreamWaitEvent','pid':1234,'tid':1234,'line':'prefetch "           \
	"(data.py:40)',"                                                                                       \
	"'stack':['prefetch (data.py:40)'],'calls':120000,'total_ns':77000000,'bytes':0,'sampled':true}],"     \
	"'allocations':["                                                                                      \
	"{'pid':1234,'line':'grow (pool.py:12)','stack':['grow (pool.py:12)'],'host':false,'allocations':290," \
	"'frees':300,'bytes':2900000000,'current_bytes':-100000000,'peak_bytes':40000000},"                    \
	"{'pid':1234,'line':'stage (data.py:30)','stack':['stage (data.py:30)'],'host':true,'allocations':2,"  \
	"'frees':0,'bytes':1048576,'current_bytes':1048576,'peak_bytes':1048576}],"                            \
	"'in_progress':[{'pid':1234,'tid':1240,'api':'cudaDeviceSynchronize','since_ns':2300000000},"          \
	"{'pid':1234,'tid':1234,'api':'cudaMalloc','since_ns':1000}],"                                         \
	"'gpu':{'driver':'550.54','devices':["                                                                 \
	"{'index':0,'name':'NVIDIA H100','uuid':'GPU-1','utilisation_percent':41.5,"                           \
	"'memory_utilisation_percent':12.0,'memory_used_bytes':12000000000,'memory_total_bytes':85000000000,"  \
	"'process_utilisation_percent':40.0,'process_memory_bytes':11500000000,'samples':100},"                \
	"{'index':1,'name':'NVIDIA H100','uuid':'GPU-2','utilisation_percent':99.0,"                           \
	"'memory_utilisation_percent':50.0,'memory_used_bytes':70000000000,'memory_total_bytes':85000000000,"  \
	"'process_utilisation_percent':null,'process_memory_bytes':null,'samples':100}]}}"

/* An answer with nothing in it, and what comes behind its pid. */
#define CUDA_ANSWER(members) "{'pid':7,'comm':'sim','duration_s':10.0,'cpu_s':10.0," members "}"

/* A call's row, complete but for what `members` say. */
#define CUDA_CALL(api, kind, members) \
	"{'api':'" api "','kind':'" kind "','library':1,'pid':7,'tid':7,'comm':'sim'," members "}"

/* New reference. */
static inline json_t *cuda_answer(const char *text)
{
	char *copy = strdup(text);
	json_error_t error;
	json_t *answer;

	assert_non_null(copy);
	for (char *c = copy; *c; c++)
		*c = *c == '\'' ? '"' : *c;
	answer = json_loads(copy, 0, &error);
	if (!answer)
		fail_msg("the test's own text: %s at %d in %.60s", error.text, error.position,
			 copy + (error.position < 30 ? 0 : error.position - 30));
	free(copy);
	return answer;
}

/* To be freed. */
static inline struct cuda_report *cuda_read(const char *text)
{
	json_t *answer = cuda_answer(text);
	struct cuda_report *report = NULL;
	struct so_error err = { "" };

	if (cuda_report__read(answer, &report, &err))
		fail_msg("%s", err.text);
	json_decref(answer);
	return report;
}

/*
 * What `stakeout cuda` prints, to be freed. Not inlined: gcc would take the memory stream's buffer for a local variable
 * that has gone.
 */
static __attribute__((noinline, unused)) char *cuda_rendered(json_t *answer, const struct cuda_view *view)
{
	struct so_error err = { "" };
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	if (cuda_report__render(answer, view, out, &err))
		fail_msg("%s", err.text);
	fclose(out);
	assert_int_equal(strlen(text), length);
	assert_null(strstr(text, " \n"));
	assert_int_equal(text[length - 1], '\n');
	return text;
}

static inline char *cuda_render_text(const char *answer_text, const struct cuda_view *view)
{
	json_t *answer = cuda_answer(answer_text);
	char *text = cuda_rendered(answer, view);

	json_decref(answer);
	return text;
}

#endif
