/* run_classes.h - the part of a run's report that its confusion matrix tells. */
#ifndef REPORT_RUN_CLASSES_H
#define REPORT_RUN_CLASSES_H

#include "report/run_report.h"

/* Nothing where there is no matrix. */
void run_classes_write(page *p, const report_run *r);

#endif
