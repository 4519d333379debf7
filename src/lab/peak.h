/* peak.h - how many products and sums a second this machine can make at best, now.
 *
 * Every thread runs fused multiply-adds on registers alone, in more chains than one waits for. No kernel can be
 * faster, so that other figures become shares of this one; and as virtual machines change their speed, the figure
 * taken beside a measurement says how fast the machine was at that time.
 */
#ifndef LAB_PEAK_H
#define LAB_PEAK_H

/* One sample, of 4 to 8 ms: operations a second, of all threads together. */
double peak_sample(int threads);
/* The median of five. */
double peak_median(int threads);

#endif
